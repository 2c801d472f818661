"""Fields by which one client's answer, or one client's words, could reach others: more members of each class."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from stampede_guard import CacheRoute
from stampede_guard.http.requests import requester
from stampede_guard.http.requests.settings import Settings
from stampede_guard.http.spec.fields import is_of_one_requester
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.traps.test_http import MODIFIED, at_once, telling
from tests.traps.test_http_headers import MOST, seconds
from tests.traps.web import serving

CREDENTIALS = """
api_key x_api_key access_key key x-key ocp-apim-subscription-key x-functions-key x-rapidapi-key dd-application-key
x-arr-clientcert x-amzn-mtls-clientcert-leaf cookie2 x-firebase-appcheck x-wp-nonce x-sign x-hmac x-pwd x-passcode
remote-name remote_user x-ssl-client-s-dn ssl_client_verify x-forwarded-tls-client-cert x-accesskey x-oauth-scopes
""".split()


@pytest.mark.parametrize("name", CREDENTIALS)
async def test_a_field_that_opens_something_is_a_credential_however_it_is_spelled(name: str) -> None:
    async with Fleet(App()) as fleet:
        middleware = fleet.middlewares[0]
        assert middleware.settings.credentials({name.encode()})
        await fleet.get("/", **{name: "secret"})
        assert "hit" not in status_of(await fleet.get("/"))


JOINED = """
x-tenantid tenantid xtenantid
x_tenantid x.tenant.id x-clientid clientid x-customerid x-accountid accountid x-orgid orgid
x-organizationid
x-companyid x-deviceid x-memberid x-employeeid x-merchantid x-workspaceid x-storeid x-shopid x-subjectid
x-loginuser
x-loginid x-useremail x-userrole x-currentuser x-userpassword authkey x-secretkey x-appkey appkey x-privatekey
x-licensekey x-userkey x-subscriptionkey subscriptionkey x-sessionkey x-apisecret apisecret x-clientsecret x-appsecret
x-apisignature x-accesscode x-access-code x-cartid x-cart-id x-guestid x-guest-id x-playerid x-player-id
""".split()


@pytest.mark.parametrize("name", JOINED)
def test_a_field_that_tells_one_user_from_another_counts_without_its_dashes_too(name: str) -> None:
    assert Settings().credentials({name.encode()})


STAND_INS = """
x-persona x-personaid x-guid x-guid-id x-uuid x-impersonate x-impersonating x-impersonator x-act-as x-actas x-acting-as
x-on-behalf-of x-onbehalfof x-viewer x-viewer-id x-viewerid x-principal x-subject x-actor x-view-as x-viewas
x-run-as x-sudo x-sudo-user x-become-user x-assume-role x-assumed-user x-switchuser x-masquerade-as x-delegated-by
x-requester x-requestor-id x-caller x-caller-id x-whoami x-reader x-reader-id x-contact-id x-visitor x-guest x-is-admin
x-staff-id x-agent-id x-project-id x-entitlements x-msisdn x-upn x-nickname viewer current-viewer
""".split()


@pytest.mark.parametrize("name", STAND_INS)
async def test_a_field_that_names_a_role_or_whom_one_acts_for_is_shared_only_if_the_route_says_so(
    name: str,
) -> None:
    def for_him(*routes: CacheRoute) -> Fleet:
        return Fleet(App({}), routes=routes)

    async with for_him(CacheRoute("/*", ttl=60)) as fleet:
        bodies = [(await fleet.get("/", **{name: user})).body for user in ("me", "you")]
        assert (await fleet.get("/")).body not in bodies
        assert bodies[0] != bodies[1]
    told = [CacheRoute("/*", ttl=60, vary=(name,)), CacheRoute("/*", ttl=60, key=lambda scope: "")]
    for route in told:
        async with for_him(route) as fleet:
            await fleet.get("/", **{name: "me"})
            assert "hit" in status_of(await fleet.get("/", **{name: "me"}))


ORDINARY = """
accept accept-charset accept-encoding accept-language access-control-request-headers access-control-request-method
cache-control cf-connecting-ip cf-ipcountry cf-ray connection content-length content-type dnt forwarded host
if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive keepalive origin pragma priority range
referer
save-data sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform sec-ch-prefers-color-scheme sec-fetch-dest sec-fetch-mode
sec-fetch-site sec-fetch-user sec-gpc sec-purpose te traceparent tracestate true-client-ip upgrade-insecure-requests
user-agent useragent x-useragent x-user-agent via x-amz-cf-id x-amzn-trace-id x-b3-sampled x-b3-spanid x-b3-traceid
x-cachekey idempotencykey x-client-data x-clientdata x-clientname x-clientversion x-client-version x-cloud-trace-context
x-correlation-id x-correlationid x-debug x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-prefix
x-forwarded-proto x-forwarded-server x-forwardedfor x-keyword author x-coauthor x-apiversion x-appname x-appversion
x-purpose x-real-ip x-realip x-request-id x-requestid x-request-start x-requested-with x-requestedwith x-sortkey
x-traceid x-b3-parentspanid b3 uber-trace-id x-datadog-parent-id sentry-trace baggage x-request-guid x-requestguid
x-request-uuid x-correlation-guid x-ms-client-request-id x-transaction-id x-operation-id x-message-id
cloudfront-viewer-country cloudfront-viewer-address cloudfront-is-mobile-viewer cloudfront-viewer-tls x-azure-ref
x-azure-clientip x-vercel-id fastly-client-ip x-envoy-decorator-operation x-envoy-attempt-count x-varnish x-device-type
x-mailer x-feature-flags x-agent x-pjax hx-request turbo-frame x-inertia from
""".split()


@pytest.mark.parametrize("name", ORDINARY)
def test_what_browsers_and_proxies_send_tells_nobody_from_another(name: str) -> None:
    assert not Settings().credentials({name.encode()})


@pytest.mark.parametrize(
    "name", ["idempotency-key", "x-cache-key", "x-request-id", "traceparent", "x-requested-with", "origin"]
)
def test_a_field_that_opens_nothing_is_no_credential(name: str) -> None:
    assert not requester.is_credential(name.encode())
    assert not requester.names_a_user(name.encode())


@pytest.mark.parametrize("rule", [requester.is_credential, requester.names_a_user])
def test_a_long_name_that_a_client_made_up_is_not_remembered(rule: Callable[[bytes], bool]) -> None:
    name = b"x-" + b"a" * 4096
    before = sys.getrefcount(name)
    assert not rule(name)
    assert sys.getrefcount(name) == before


@pytest.mark.parametrize(
    "name",
    [
        "dpop-nonce",
        "replay-nonce",
        "access-token",
        "token",
        "x-jwt",
        "x_session",
        "set-login",
        "x-set-cookie",
    ],
)
async def test_what_hands_something_to_one_client_is_not_stored(name: str) -> None:
    async with Fleet(App(cached() | {name: "one"})) as fleet:
        await fleet.get("/")
        assert "hit" not in status_of(await fleet.get("/"))


@pytest.mark.parametrize(
    "name", ["x-next-page-token", "x-ms-continuationtoken", "x-ratelimit-remaining", "etag"]
)
def test_what_is_said_to_all_is_of_no_one(name: str) -> None:
    assert not is_of_one_requester(name.encode())


@pytest.mark.parametrize(
    "name",
    "x-forwarded-path-base x-forwarded-anything x-original-path x_forwarded_host x-scheme cf-visitor x-real-host "
    "cloudfront-forwarded-proto x-envoy-original-path x-rewrite-path".split(),
)
async def test_any_field_that_names_a_place_is_in_the_key(name: str) -> None:
    async with Fleet(App()) as fleet:
        evil = await fleet.get("/", **{name: "evil.example"})
        other = await fleet.get("/")
        assert other.body != evil.body
        assert (await fleet.get("/", **{name: "evil.example"})).body == evil.body


@pytest.mark.parametrize("name", ["x-forwarded-for", "x-real-ip", "x-original-forwarded-for", "x-scheme"])
async def test_what_every_proxy_says_costs_no_entry_of_its_own(name: str) -> None:
    async with Fleet(App()) as fleet:
        await fleet.get("/")
        assert "hit" in status_of(await fleet.get("/", **{name: "http"}))


def test_many_lines_of_forwarded_are_read_once() -> None:
    def of_lines(count: int) -> float:
        fields = tuple((b"forwarded", b"host=a") for _ in range(count))
        return seconds(
            lambda _: requester.forwarded_part({b"forwarded"}, fields, scheme="http", host="a"), b""
        )

    assert of_lines(16_000) <= MOST * max(of_lines(2_000), 0.0005)


async def test_a_path_that_a_middleware_has_rewritten_has_an_entry_of_its_own() -> None:
    app = App()
    async with Fleet(app) as fleet:
        cache = fleet.middlewares[0]
        bodies = []
        for language in ("en", "de", "en"):

            async def send(message: Any) -> None:
                if message["type"] == "http.response.body":
                    bodies.append(message["body"])

            async def receive() -> Any:
                return {"type": "http.request", "body": b"", "more_body": False}

            scope = {
                "type": "http",
                "method": "GET",
                "scheme": "http",
                "path": f"/{language}/page",
                "raw_path": b"/page",
                "query_string": b"",
                "headers": [(b"host", b"shop.example")],
            }
            await cache(scope, receive, send)
        assert bodies[0] == bodies[2] != bodies[1]


# --------------------------------------------------------------------------------------------------------- responses


@pytest.mark.parametrize(
    "bad",
    [
        (b"x-a: 1\r\nlocation", b"/b"),
        (b"x a", b"1"),
        (b"", b"1"),
        (b"content-length", b"9"),
        (b"content-length", b"8, 8"),
        (b"x-\0", b"1"),
    ],
)
async def test_a_response_that_can_be_read_as_another_is_not_stored(bad: tuple[bytes, bytes]) -> None:
    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        fields = [(b"cache-control", b"max-age=60"), (b"content-length", b"8"), bad]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": b"answer %d" % number})

    app = App()
    app.handler = handler
    async with Fleet(app) as fleet:
        assert "malformed" in status_of(await fleet.get("/"))
        assert "hit" not in status_of(await fleet.get("/"))


@pytest.mark.parametrize("status", [226, 505, 506, 510])
async def test_an_answer_to_one_requests_version_or_extensions_is_nobody_elses(status: int) -> None:
    async with Fleet(App(status=status)) as fleet:
        await fleet.get("/")
        assert "hit" not in status_of(await fleet.get("/"))


@pytest.mark.parametrize("length", [True, False])
async def test_what_was_guessed_is_not_handed_to_those_who_wait_with_fields_of_their_own(
    length: bool,
) -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        more = {"content-length": "5"} if length else {}
        return MODIFIED | more, 200, b"mine!" if "x-any" in fields else b"page!"

    app = telling(App(), answer)
    async with serving(app, heuristics=True) as site:
        app.go.clear()
        leader = asyncio.ensure_future(site.ask())
        await app.called.wait()
        answers = await at_once(site, 3, x_any="1")
        assert (await leader).body == b"page!"
        assert {answer.body for answer in answers} == {b"mine!"}


async def test_a_head_of_one_visitor_removes_nothing_of_all() -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        if "cookie" in fields:
            return {"cache-control": "private", "etag": '"mine"', "content-length": "4"}, 200, b""
        return cached(etag='"a"'), 200, b"page"

    async with serving(telling(App(), answer)) as site:
        await site.ask()
        await site.ask(method="HEAD", cookie="a", cache_control="no-cache")
        assert (await site.ask()).is_hit


async def test_what_is_written_into_a_message_of_one_request_is_not_in_the_next() -> None:
    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        message = await receive()
        assert message["body"] == b""
        message["body"] = b"changed"
        await start(send, cached())
        await send({"type": "http.response.body", "body": b"answer"})

    app = App()
    app.handler = handler
    async with Fleet(app) as fleet:
        for path in ("/a", "/b"):
            assert (await fleet.get(path)).status == 200
        assert app.calls == 2
