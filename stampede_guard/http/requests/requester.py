"""What a request's fields show about its requester: which identify a user, and which mean the same for all."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from stampede_guard.http.requests.routes import Scope
from stampede_guard.http.spec.fields import members
from stampede_guard.http.spec.message import Fields
from stampede_guard.http.users.words import BESIDE, words_of

__all__ = [
    "ALWAYS",
    "ORDINARY",
    "SAFE",
    "TELLING",
    "forwarded_part",
    "IDENTITY_BYTES",
    "Requester",
    "is_credential",
    "is_safe_listed",
    "of_site",
    "overrides_method",
    "requester",
    "site_part",
    "told_places",
]

SAFE = frozenset(
    {
        b"accept",
        b"accept-charset",
        b"accept-encoding",
        b"accept-language",
        b"cache-control",
        b"connection",
        b"content-length",
        b"dnt",
        b"host",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"keep-alive",
        b"pragma",
        b"priority",
        b"range",
        b"referer",
        b"save-data",
        b"sec-ch-ua",
        b"sec-ch-ua-mobile",
        b"sec-ch-ua-platform",
        b"sec-fetch-dest",
        b"sec-fetch-mode",
        b"sec-fetch-site",
        b"sec-fetch-user",
        b"sec-gpc",
        b"te",
        b"upgrade-insecure-requests",
        b"user-agent",
        b"req-num",
    }
)
"""Fields that every browser and client library sends and that do not identify a user. `Req-Num` numbers the
requests of the public conformance suite.
"""

_OF_PROXIES = frozenset(
    {
        b"baggage",
        b"cdn-loop",
        b"cf-connecting-ip",
        b"cf-ipcountry",
        b"cf-ray",
        b"cf-visitor",
        b"forwarded",
        b"origin",
        b"traceparent",
        b"tracestate",
        b"true-client-ip",
        b"via",
        b"x-amzn-trace-id",
        b"x-cloud-trace-context",
        b"x-correlation-id",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
        b"x-request-id",
    }
)
ORDINARY = SAFE | _OF_PROXIES
"""Fields of requests that an application usually answers like all others."""
TELLING = frozenset(
    name for name in SAFE if name.startswith((b"accept", b"sec-", b"user-agent", b"referer", b"dnt"))
)
"""Fields of ordinary requests that may still change the application's response."""

IDENTITY_BYTES = 16
_LONGEST_NAME = 64
"""Bytes of a field's name for which its meaning is cached."""

ALWAYS = frozenset({b"authorization", b"cookie", b"proxy-authorization"})
"""Always credentials, whatever `credential_headers` contains."""
_SPEAKING = frozenset(
    b"""
    apikey appcheck assertion auth authentication authorization bearer cert certificate clientcert cookie cookie2
    credential credentials csrf csrftoken dpop hmac jwt key krb5 login license mtls nonce ntlm oauth oauth2 oidc otp
    passcode passphrase passwd password pin pwd saml secret session sessionid sid sign signature spnego sso ticket token
    totp webauth wsse xsrf
    """.split()
)
"""A field with one of these between its dashes is a credential: X-Auth-Token, X-SSL-Client-Cert, X-CSRF-Token,
X-Amzn-Oidc-Data, Ocp-Apim-Subscription-Key, Cf-Access-Jwt-Assertion and the like of any proxy.
"""
_KEYS_OF_REQUESTS = frozenset({b"idempotency-key", b"x-idempotency-key", b"x-cache-key"})
"""Keys that are not credentials."""
_NAMING = frozenset(
    b"""
    account actas actor business cardholder company customer delegate delegated delegation delegator email employee
    entitlement entitlements franchise group groups household identity impersonate impersonated impersonating
    impersonation impersonator imsi loginas masquerade masquerading member members merchant msisdn nickname org
    organisation organization owner partner patient permission permissions person persona principal privilege privileges
    profile realm role roles runas scope scopes seller ssn sub subject subscriber sudo superuser switchuser team tenant
    uid upn user userid userinfo username vendor viewas whoami workspace
    """.split()
)
"""A field with one of these names its user: X-User-Id, X-Tenant. A route's own `key` may distinguish those."""
_ROLES = frozenset(
    b"""
    admin anon anonymous buyer caller consumer contact courier department dept doctor driver family gaid guardian
    guest guid holder idfa imei mail operator passenger physician player project pupil reader requester requestor rider
    staff student teacher udid uuid viewer visitor wallet
    """.split()
)
"""A field that says nothing but one of these names its user: X-Viewer, X-Guid, X-Reader-Id. Beside other words they
mean something else: CloudFront-Viewer-Country, X-Request-Guid, X-Envoy-Decorator-Operator.
"""
_OF_ROLES = _ROLES | frozenset(b"code current email hash id ids is my name no num number ref x".split())
_NAMING_PAIRS = (
    b"act-as",
    b"acting-",
    b"agent-id",
    b"assume-",
    b"become-",
    b"behalf",
    b"cart-id",
    b"client-id",
    b"device-id",
    b"guest-id",
    b"installation-id",
    b"player-id",
    b"run-as",
    b"shop-id",
    b"site-id",
    b"store-id",
    b"view-as",
    b"visitor-id",
)
_SPEAKING_PAIRS = (
    b"access-code",
    b"client-dn",
    b"client-verify",
    b"init-data",
    b"forwarded-email",
    b"forwarded-groups",
    b"forwarded-preferred-username",
    b"forwarded-user",
    b"remote-user",
    b"ssl-client",
)
_ENDINGS = (b"token", b"apikey", b"accesskey", b"jwt", b"sessid", b"sessionid", b"cert")
_BEGINNINGS = (
    b"x-auth",
    b"remote-",
    b"x-remote-",
    b"x-ssl-",
    b"ssl-client-",
    b"x-amzn-oidc-",
    b"x-ms-client-principal",
    b"x-ms-token",
    b"x-goog-iap-",
    b"x-goog-authenticated-",
    b"cf-access-",
    b"x-pomerium-",
    b"x-vouch-",
    b"x-consumer-",
    b"x-credential-",
    b"tailscale-user-",
)
_WORDS = _SPEAKING | _NAMING | _ROLES | BESIDE


def _remembered(rule: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
    """Caches the result of a rule for names of a usual length. A client could invent long names and fill the
    memory.
    """
    known = functools.lru_cache(maxsize=4096)(rule)
    return lambda name: known(name) if len(name) <= _LONGEST_NAME else rule(name)


@_remembered
def is_credential(name: bytes) -> bool:
    """Whether a field with this name proves who the requester is, by the usual names of such fields. `name` is in
    lower case.
    """
    plain = name.replace(b"_", b"-")
    if plain in ORDINARY or plain in _KEYS_OF_REQUESTS:
        return False
    if plain in ALWAYS or plain.startswith(_BEGINNINGS) or plain.rpartition(b"-")[2].endswith(_ENDINGS):
        return True
    words = words_of(name, _WORDS)
    return not _SPEAKING.isdisjoint(words) or _has_pair(words, _SPEAKING_PAIRS)


@_remembered
def names_a_user(name: bytes) -> bool:
    """Whether a field with this name states the user of the request, without a proof."""
    if (plain := name.replace(b"_", b"-")) in ORDINARY or b"user-agent" in plain:
        return False
    words = words_of(name, _WORDS)
    if not _NAMING.isdisjoint(words) or _has_pair(words, _NAMING_PAIRS):
        return True
    return not _ROLES.isdisjoint(words) and _OF_ROLES.issuperset(words)


def _has_pair(words: list[bytes], pairs: tuple[bytes, ...]) -> bool:
    told = b"-".join(words)
    return any(pair in told for pair in pairs)


def is_safe_listed(fields: Fields) -> bool:
    """Whether the request has no field by which an application could distinguish it from another visitor's."""
    return all(name in SAFE for name, _ in fields)


class Requester(NamedTuple):
    """`identity` is equal for requests that an application cannot distinguish by their fields. An `ordinary` one
    has only fields that every browser and proxy sends.
    """

    identity: bytes
    ordinary: bool

    def written(self) -> bytes:
        return self.identity + b"o" * self.ordinary

    @classmethod
    def read(cls, written: bytes) -> Requester:
        return cls(written[:IDENTITY_BYTES], len(written) > IDENTITY_BYTES)


def requester(scope: Scope, fields: Fields) -> Requester:
    own = sorted(pair for pair in fields if pair[0] not in ORDINARY)
    if own:
        client = scope.get("client")
        return Requester(_digest((str(client[0]) if client else "", own)), ordinary=False)
    return Requester(_digest(sorted(pair for pair in fields if pair[0] in TELLING)), ordinary=True)


def _digest(told: object) -> bytes:
    return hashlib.blake2b(repr(told).encode(), digest_size=IDENTITY_BYTES).digest()


_OVERRIDES = frozenset(
    {
        b"http-method-override",
        b"x-http-method",
        b"x-http-method-override",
        b"x-method-override",
        b"x-original-method",
    }
)
_PLACES = frozenset(
    b"""
    base-url cf-visitor cloudfront-forwarded-proto destination forwarded front-end-https http-url proxy-host proxy-url
    request-uri x-appservice-proto x-arr-ssl x-base-url x-envoy-original-path x-gateway-host x-host
    x-http-destinationurl x-http-host-override x-http-path x-proxy-host x-proxy-url x-real-host x-request-uri
    x-rewrite-url x-scheme x-script-name x-server-name x-ssl x-url-scheme
    """.split()
)
"""Fields by which an application may read another URL in the request, or write another URL into its response."""
_PLACES_BEGIN = (b"x-forwarded-", b"x-original-", b"x-rewrite-", b"x-override-")
_OF_CLIENTS = frozenset({b"x-forwarded-for", b"x-forwarded-client-ip", b"x-original-forwarded-for"})
"""Addresses of clients, which differ for each request."""
_OF_ORIGINS = frozenset(
    b"""
    cf-visitor cloudfront-forwarded-proto forwarded front-end-https proxy-host x-appservice-proto x-forwarded-host
    x-forwarded-port x-forwarded-prefix x-forwarded-proto x-forwarded-protocol x-forwarded-scheme x-gateway-host x-host
    x-http-host-override x-original-host x-original-proto x-original-scheme x-proxy-host x-real-host x-scheme
    x-script-name x-server-name x-url-scheme
    """.split()
)
"""Those that tell the site which was asked, and are equal for all its requests. Others may differ from one request to
the next, as a path, the version of TLS or the name of a proxy does, so they must not hide an entry from a change.
"""


@_remembered
def _is_place(name: bytes) -> bool:
    name = name.replace(b"_", b"-")
    if name in _PLACES:
        return True
    return name.startswith(_PLACES_BEGIN) and name not in _OF_CLIENTS and not is_credential(name)


def overrides_method(names: Iterable[bytes]) -> bool:
    """Whether an application may treat the request as one with another method."""
    return not _OVERRIDES.isdisjoint([name.replace(b"_", b"-") for name in names])


def forwarded_part(names: AbstractSet[bytes], fields: Fields, *, scheme: str, host: str) -> str:
    """The part of the key for the URL that a proxy was asked for; empty if that is the request's own URL.

    A client that invents these fields gets its own entries, and cannot poison other clients' entries.
    """
    told = told_places(names, fields, scheme=scheme, host=host)
    # In the order of each field's lines: an application may believe the first or the last.
    return repr(sorted(told, key=lambda pair: pair[0])) if told else ""


def site_part(names: AbstractSet[bytes], fields: Fields, *, scheme: str, host: str) -> str:
    """That of a request that only says which site was asked."""
    told = of_site(told_places(names, fields, scheme=scheme, host=host))
    return repr(sorted(told, key=lambda pair: pair[0])) if told else ""


def of_site(told: Fields | list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Of these places, those of all requests to one site."""
    found = [pair for pair in told if pair[0].replace(b"_", b"-") in _OF_ORIGINS]
    return found and found + [pair for pair in told if pair[0] == b"host"]


def told_places(
    names: AbstractSet[bytes], fields: Fields, *, scheme: str, host: str
) -> list[tuple[bytes, bytes]]:
    """The fields that say something about the URL that a proxy was asked for, where it is not the request's own."""
    places = {name for name in names - SAFE if _is_place(name)}
    if not places:
        return []
    own = {
        b"x-forwarded-host": host,
        b"x-forwarded-proto": scheme,
        b"x-forwarded-scheme": scheme,
        b"x-scheme": scheme,
    }
    told = []
    lines = Counter([name for name, _ in fields if name in places])
    for name, value in fields:
        if name == b"forwarded":
            told += [(name, pair) for pair in _host_and_proto(value)]
        elif lines[name] > 1 or (name in places and value.strip().lower().decode("latin-1") != own.get(name)):
            # Of two lines, the one with the request's own host counts, too.
            told.append((name, value.strip()))
    # The port is left out of a host if it is that of the scheme. For a proxy's own scheme it may be another one.
    return told and told + [(b"host", line) for line in _hosts(fields) if line.decode("latin-1") != host]


def _hosts(fields: Fields) -> list[bytes]:
    return [value.strip(b" \t").lower() for name, value in fields if name == b"host"]


def _host_and_proto(line: bytes) -> list[bytes]:
    """RFC 7239: without the addresses of clients, which differ for each request."""
    parts = members(((b"forwarded", line),), b"forwarded")
    pairs = [pair.strip().lower() for part in parts for pair in part.split(b";")]
    return [pair for pair in pairs if pair.startswith((b"host", b"proto"))]
