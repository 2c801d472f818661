"""Who a request is from, as far as its fields tell: which name somebody, and which mean the same for everybody."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from stampede_guard.http.routes import Scope
from stampede_guard.http.spec.fields import has, members
from stampede_guard.http.spec.message import Fields

__all__ = [
    "ALWAYS",
    "SAFE",
    "forwarded_part",
    "IDENTITY_BYTES",
    "Requester",
    "is_credential",
    "is_safe_listed",
    "overrides_method",
    "requester",
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
"""Fields that every browser and client library sends and that say nothing of who asks. `Req-Num` numbers the requests
of the public conformance suite."""

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
_ORDINARY = SAFE | _OF_PROXIES
_TELLING = frozenset(
    name for name in SAFE if name.startswith((b"accept", b"sec-", b"user-agent", b"referer", b"dnt"))
)
"""Of ordinary requests, what an application may still answer differently."""

IDENTITY_BYTES = 16

ALWAYS = frozenset({b"authorization", b"cookie", b"proxy-authorization"})
"""Credentials whatever `credential_headers` says."""
_SPEAKING = frozenset(
    {
        b"apikey",
        b"assertion",
        b"auth",
        b"authentication",
        b"authorization",
        b"bearer",
        b"cert",
        b"certificate",
        b"credential",
        b"credentials",
        b"csrf",
        b"csrftoken",
        b"dpop",
        b"jwt",
        b"login",
        b"license",
        b"oidc",
        b"otp",
        b"passwd",
        b"password",
        b"pin",
        b"secret",
        b"session",
        b"sessionid",
        b"sid",
        b"signature",
        b"sso",
        b"ticket",
        b"token",
        b"totp",
        b"webauth",
        b"wsse",
        b"xsrf",
    }
)
"""A field that has one of these between its dashes is a credential: X-Auth-Token, X-SSL-Client-Cert, X-CSRF-Token,
X-Amzn-Oidc-Data, Cf-Access-Jwt-Assertion and the like of any proxy."""
_NAMING = frozenset(
    b"""
    account actor business company customer email employee franchise group groups identity impersonate impersonation
    impersonated member merchant org organisation organization owner partner patient permission permissions person
    principal profile realm role roles scope scopes seller sub subject subscriber team tenant uid user userid username
    vendor workspace
    """.split()
)
"""One with one of these says for whom it is: X-User-Id, X-Tenant. A route's own `key` may tell those apart."""
_NAMING_PAIRS = (
    b"act-as",
    b"acting-",
    b"behalf",
    b"client-id",
    b"device-id",
    b"installation-id",
    b"run-as",
    b"shop-id",
    b"site-id",
    b"store-id",
    b"visitor-id",
)
_SPEAKING_PAIRS = (
    b"api-key",
    b"access-key",
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
_BEGINNINGS = (
    b"x-auth",
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


@functools.lru_cache(maxsize=4096)
def is_credential(name: bytes) -> bool:
    """Whether a field of this name proves who asks, by the usual names of such fields. `name` is in lower case."""
    if name in _ORDINARY:
        return False
    if name in ALWAYS or name.startswith(_BEGINNINGS) or any(pair in name for pair in _SPEAKING_PAIRS):
        return True
    parts = name.replace(b"_", b"-").split(b"-")
    return not _SPEAKING.isdisjoint(parts) or parts[-1].endswith((b"token", b"apikey", b"jwt"))


@functools.lru_cache(maxsize=4096)
def names_a_user(name: bytes) -> bool:
    """Whether a field of this name says for whom the request is, without a proof."""
    if name in _ORDINARY or b"user-agent" in name:
        return False
    name = name.replace(b"_", b"-")
    return any(pair in name for pair in _NAMING_PAIRS) or not _NAMING.isdisjoint(name.split(b"-"))


def is_safe_listed(fields: Fields) -> bool:
    """Whether the request has nothing by which an application could tell it from another visitor's."""
    return all(name in SAFE for name, _ in fields)


class Requester(NamedTuple):
    """`identity` is equal for requests that an application cannot tell apart, as far as their fields go. An `ordinary`
    one has nothing but what every browser and proxy sends."""

    identity: bytes
    ordinary: bool


def requester(scope: Scope, fields: Fields) -> Requester:
    own = sorted(pair for pair in fields if pair[0] not in _ORDINARY)
    if own:
        client = scope.get("client")
        return Requester(_digest((str(client[0]) if client else "", own)), ordinary=False)
    return Requester(_digest(sorted(pair for pair in fields if pair[0] in _TELLING)), ordinary=True)


def _digest(told: object) -> bytes:
    return hashlib.blake2b(repr(told).encode(), digest_size=IDENTITY_BYTES).digest()


_OVERRIDES = frozenset(
    {b"x-http-method", b"x-http-method-override", b"x-method-override", b"x-original-method"}
)
_PLACES = frozenset(
    {
        b"forwarded",
        b"front-end-https",
        b"x-forwarded-host",
        b"x-forwarded-path",
        b"x-forwarded-port",
        b"x-forwarded-prefix",
        b"x-forwarded-proto",
        b"x-forwarded-protocol",
        b"x-forwarded-scheme",
        b"x-forwarded-server",
        b"x-forwarded-ssl",
        b"x-forwarded-uri",
        b"x-host",
        b"x-http-host-override",
        b"x-original-host",
        b"x-original-uri",
        b"x-original-url",
        b"x-rewrite-url",
        b"x-script-name",
        b"x-url-scheme",
    }
)
"""Fields by which an application may take the request for one of another URL, or write another into its answer."""


def overrides_method(names: Iterable[bytes]) -> bool:
    """Whether an application may take the request for one of another method."""
    return not _OVERRIDES.isdisjoint(names)


def forwarded_part(names: frozenset[bytes] | set[bytes], fields: Fields, *, scheme: str, host: str) -> str:
    """What belongs to the key of the URL that a proxy was asked for; empty where it is the request's own.

    Whoever makes these fields up has entries of his own, and poisons nobody else's.
    """
    if _PLACES.isdisjoint(names):
        return ""
    own = {b"x-forwarded-host": host, b"x-forwarded-proto": scheme, b"x-forwarded-scheme": scheme}
    told = []
    for name, value in fields:
        if name == b"forwarded":
            told += [(name, pair) for pair in _host_and_proto(fields)] if has(fields, name) else []
        elif name in _PLACES and value.strip().lower().decode("latin-1") != own.get(name):
            told.append((name, value.strip()))
    return repr(sorted(set(told))) if told else ""


def _host_and_proto(fields: Fields) -> list[bytes]:
    """RFC 7239: not the addresses of clients, which are different in each request."""
    pairs = [pair.strip().lower() for part in members(fields, b"forwarded") for pair in part.split(b";")]
    return [pair for pair in pairs if pair.startswith((b"host", b"proto"))]
