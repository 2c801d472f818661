"""A form is accepted from a page of the fleet only: of this session, this user, this namespace and this day."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.errors import StoreRefused
from stampede_guard.ops.console.access import COOKIE
from stampede_guard.ops.console.formsecret import GENERATION
from stampede_guard.stores.connections.wire import modes_keys
from stampede_guard.stores.console.console import Console
from tests.ops.console.conftest import ACTIONS, Browser, a_browser, mounted
from tests.support.sessions import patient

REFUSED = 403
FIELDS = {"function": "shop.quality", "to": "bypass", "for": "30m"}


async def switched(browser: Browser, token: str, **more: Any) -> int:
    return (await browser.submit("mode", token=token, **FIELDS, **more)).status_code


@pytest.fixture
async def other(guard: StampedeGuard, valkey_url: str) -> AsyncIterator[Browser]:
    """The same browser, whose requests reach another worker."""
    async with (
        StampedeGuard.from_url(patient(valkey_url), namespace=guard.namespace) as made,
        a_browser(made, actions=ACTIONS) as found,
    ):
        yield found


async def test_a_worker_accepts_the_form_of_another_workers_page(acting: Browser, other: Browser) -> None:
    token = await acting.token()
    other.cookies.update(acting.cookies)
    assert await switched(other, token) == 200


async def test_what_a_neighbour_can_compute_is_no_token(acting: Browser) -> None:
    """It has set the cookie, so it knows the session, and every line of this program."""
    acting.cookies.set(COOKIE, session := "a" * 32)
    made = [
        hmac.new(session.encode(), b"form\0ada", hashlib.sha256).hexdigest(),
        *(
            hmac.new(secret, b"form\0" + session.encode() + b"\0ada", hashlib.sha256).hexdigest()
            for secret in (b"", session.encode())
        ),
    ]
    for token in (*made, "", "x", "\N{SNOWMAN}"):
        assert await switched(acting, token) == REFUSED


async def test_a_token_belongs_to_its_session_and_its_user(acting: Browser) -> None:
    eves = await acting.token("eve")
    assert await switched(acting, eves) == REFUSED
    mine = await acting.token()
    acting.cookies.set(COOKIE, "b" * 32)
    assert await switched(acting, mine) == REFUSED


async def test_a_token_belongs_to_its_namespace(
    acting: Browser, guard: StampedeGuard, valkey_url: str
) -> None:
    async with (
        StampedeGuard.from_url(patient(valkey_url), namespace=f"{guard.namespace}-other") as made,
        a_browser(made, actions=ACTIONS) as elsewhere,
    ):
        elsewhere.cookies.update(acting.cookies)
        assert await switched(elsewhere, await acting.token()) == REFUSED


async def test_a_token_is_accepted_for_one_more_generation(
    guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker is a new one: it remembers nothing."""
    asked, passed = Console.now, [0]

    async def later(servers: Console) -> float:
        return await asked(servers) + passed[0] * GENERATION

    monkeypatch.setattr(Console, "now", later)
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(a_browser(guard, actions=ACTIONS)) for _ in range(3)]
        token = await workers[0].token()
        for worker, status in zip(workers, (200, 200, REFUSED), strict=True):
            worker.cookies.update(workers[0].cookies)
            assert await switched(worker, token) == status
            passed[0] += 1


async def test_a_worker_follows_when_the_store_has_lost_the_secret(
    acting: Browser, other: Browser, valkey: Any, guard: StampedeGuard
) -> None:
    await acting.token()
    lost = await valkey.keys("{" + guard.namespace + ":console:*}")
    assert len(lost) == 1 and 0 < await valkey.ttl(lost[0]) <= 2 * GENERATION
    await valkey.delete(*lost)
    token = await other.token()
    acting.cookies.update(other.cookies)
    assert await switched(acting, token) == 200


async def test_without_a_place_for_the_secret_a_worker_accepts_its_own_forms_only(
    acting: Browser, other: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: Any, **__: Any) -> bytes:
        raise StoreRefused("READONLY")

    monkeypatch.setattr(Console, "agreed", refused)
    token = await acting.token()
    assert await switched(acting, token) == 200
    other.cookies.update(acting.cookies)
    assert await switched(other, token) == REFUSED


async def test_a_server_that_may_not_be_written_still_tells_the_secret(
    valkey_url: str, valkey: Any, namespace: str
) -> None:
    from stampede_guard.api.urls import store_from_url

    name = f"{namespace}:console:7"
    await valkey.set(*modes_keys(name), b"agreed before")
    await valkey.execute_command(
        "ACL", "SETUSER", namespace, "on", ">p", "~*", "+get", "+time", "+client|setinfo", "+client|setname"
    )
    try:
        async with await Console.open(
            store_from_url(valkey_url.replace("://", f"://{namespace}:p@"))
        ) as servers:
            assert await servers.agreed(name, "mine", seconds=9) == b"agreed before"
            with pytest.raises(StoreRefused):
                await servers.agreed(f"{namespace}:console:8", "mine", seconds=9)
    finally:
        await valkey.execute_command("ACL", "DELUSER", namespace)


async def test_pages_without_actions_cost_the_server_no_secret(
    browser: Browser, valkey: Any, namespace: str
) -> None:
    assert (await browser.see("/")).status_code == 200
    assert await valkey.keys("{" + namespace + ":console:*}") == []


async def test_a_store_without_servers_has_forms_of_its_own_process() -> None:
    guard = StampedeGuard.from_url("memory://")
    console: Any = guard.console(allow=lambda request: True, actions=ACTIONS)
    with mounted(console) as browser:
        browser.console = console
        assert await switched(browser, "x") == REFUSED
        assert await switched(browser, await browser.token("")) != REFUSED
