"""Groups of responses (RFC 9875): one invalidation, and none of them is served again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import Policy
from tests.http.fleet import App, Fleet, cached, start, status_of


def grouped(*groups: str, **more: str) -> dict[str, str]:
    return cached(cache_groups=", ".join(f'"{group}"' for group in groups), **more)


class Site(App):
    """Its unsafe requests invalidate `outdates`."""

    def __init__(self, headers: dict[str, str], outdates: str = '"a"') -> None:
        super().__init__(headers)
        self.outdates = outdates

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] in ("GET", "HEAD"):
            await super().__call__(scope, receive, send)
            return
        await start(send, {"cache-group-invalidation": self.outdates})
        await send({"type": "http.response.body", "body": b"done"})


async def test_an_unsafe_request_invalidates_all_responses_of_its_groups_in_all_processes() -> None:
    app = Site(grouped("a", "b"))
    async with Fleet(app, processes=2) as fleet:
        for path in ("/1", "/2"):
            for process in (0, 1):
                await fleet.get(path, process=process)
        assert app.calls == 2
        app.headers = grouped("b")
        await fleet.get("/3")
        await fleet.get("/change", method="POST")
        assert "hit" in status_of(await fleet.get("/3", process=1))
        for path in ("/1", "/2"):
            for process in (0, 1):
                answer = await fleet.get(path, process=process)
                assert int(answer.body.split()[1]) > 3
        assert app.calls == 5


async def test_safe_requests_and_errors_and_other_groups_invalidate_nothing() -> None:
    app = Site(grouped("a", cache_group_invalidation='"a"'), outdates='"A", "b"')
    async with Fleet(app) as fleet:
        await fleet.get("/1")
        await fleet.get("/2")
        await fleet.get("/change", method="POST")
        assert "hit" in status_of(await fleet.get("/1"))


@pytest.mark.parametrize("field", ["surrogate-key", "cache-tag"])
async def test_the_names_that_cdns_use_are_groups_too(field: str) -> None:
    app = Site(cached() | {field: "a"})
    async with Fleet(app) as fleet:
        await fleet.get("/1")
        assert "hit" in status_of(answer := await fleet.get("/1"))
        assert answer.get(field) == "a"
        await fleet.get("/change", method="POST")
        assert "hit" not in status_of(await fleet.get("/1"))


async def test_the_names_that_cdns_use_are_removed_if_that_is_wanted() -> None:
    app = App(cached(surrogate_key="a", cache_tag="b", cache_groups='"c"'))
    async with Fleet(app, strip_groups=True) as fleet:
        for answer in (await fleet.get(), await fleet.get(), await fleet.get(authorization="x")):
            assert answer.get("surrogate-key") is None
            assert answer.get("cache-tag") is None
            assert answer.get("cache-groups") == '"c"'
        await fleet.guards[0].invalidate_tag("http:a")
        assert "hit" not in status_of(await fleet.get())


async def test_they_are_also_removed_from_what_goes_past_the_cache() -> None:
    app = App({"cache-control": "no-store", "Surrogate-Key": "a"})
    async with Fleet(app, strip_groups=True) as fleet:
        answers = [await fleet.get() for _ in range(4)]
        assert "fwd=bypass; detail=uncacheable" in status_of(answers[-1])
        assert all(answer.get("surrogate-key") is None for answer in answers)


@pytest.mark.parametrize("groups", ["a", '"a', " ".join(f'"{n}",' for n in range(65)) + '"a"'])
async def test_a_response_whose_groups_cannot_be_known_is_not_stored(groups: str) -> None:
    app = App(cached(cache_groups=groups))
    async with Fleet(app) as fleet:
        assert "detail=groups" in status_of(await fleet.get())
        await fleet.get()
        assert app.calls == 2


async def test_invalidate_tag_reaches_responses_of_all_hosts() -> None:
    app = App(grouped("a", "é"[:0]))
    async with Fleet(app, processes=2) as fleet:
        await fleet.get(host="one.example")
        await fleet.get(host="two.example")
        assert await fleet.guards[1].invalidate_tag("http:a") == "done"
        assert "hit" not in status_of(await fleet.get(host="one.example"))
        assert "hit" not in status_of(await fleet.get(host="two.example"))


# --- never another tenant's ---------------------------------------------------------------------


async def test_a_request_invalidates_the_groups_of_its_own_host_only() -> None:
    app = Site(grouped("a"))
    async with Fleet(app) as fleet:
        for host in ("one.example", "two.example"):
            await fleet.get(host=host)
        await fleet.get(host="one.example", method="DELETE", path="/else")
        assert "hit" in status_of(await fleet.get(host="two.example"))
        assert "hit" not in status_of(await fleet.get(host="one.example"))


async def test_two_tenants_behind_one_proxy_are_two_origins() -> None:
    app = Site(grouped("a"))
    async with Fleet(app) as fleet:
        for host in ("one.example", "two.example"):
            await fleet.get(x_forwarded_host=host)
        await fleet.get("/else", method="DELETE", x_forwarded_host="one.example")
        assert "hit" in status_of(await fleet.get(x_forwarded_host="two.example"))
        assert "hit" not in status_of(await fleet.get(x_forwarded_host="one.example"))


async def test_a_client_that_invents_a_proxy_cannot_keep_the_old_response_of_others() -> None:
    app = Site(grouped("a"))
    async with Fleet(app) as fleet:
        await fleet.get()
        await fleet.get("/else", method="DELETE", x_forwarded_host="evil.example")
        assert "hit" not in status_of(await fleet.get())


@pytest.mark.parametrize(
    "group",
    ["http@http://two.example a", " http://two.example a", "a\n", "*", "@*", "http:a", "two.example a"],
)
async def test_no_name_of_a_group_reaches_the_group_of_another_host(group: str) -> None:
    app = Site(cached(surrogate_key="a"), outdates=f'"{group}"' if group.isprintable() else '"x"')
    async with Fleet(app) as fleet:
        await fleet.get(host="two.example")
        await fleet.get("/else", method="POST", host="one.example")
        assert "hit" in status_of(await fleet.get(host="two.example"))


# --- while a response is being made -------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True], ids=["first", "known"])
async def test_a_response_that_was_asked_for_before_the_invalidation_serves_no_later_request(
    known: bool,
) -> None:
    """1. The application reads. 2. The group is invalidated. 3. The application's answer, of before, arrives."""
    app = Site(grouped("a"))
    async with Fleet(app, processes=2) as fleet:
        if known:
            await fleet.get("/1")
            await fleet.guards[0].invalidate_tag("http:a")
        before = app.calls
        app.go.clear()
        app.called.clear()
        early = asyncio.ensure_future(fleet.get("/1"))
        await app.called.wait()
        assert await fleet.guards[1].invalidate_tag("http:a") == "done"
        late = [asyncio.ensure_future(fleet.get("/1", process=process)) for process in (0, 0, 1, 1)]
        await asyncio.sleep(0)
        app.go.set()
        assert (await early).body == b"answer %d" % (before + 1)
        for answer in await asyncio.gather(*late):
            assert int(answer.body.split()[1]) > before + 1
        assert "hit" in status_of(await fleet.get("/1", process=1))
        assert app.calls <= before + 3


async def test_the_first_response_with_groups_is_stored_at_once() -> None:
    app = App(cached())
    async with Fleet(app, processes=2) as fleet:
        await fleet.get("/without")
        app.headers = grouped("a")
        await fleet.get("/1")
        assert "hit" in status_of(await fleet.get("/1"))
        assert "hit" in status_of(await fleet.get("/1", process=1))


async def test_a_herd_on_an_invalidated_group_is_one_call() -> None:
    app = App(grouped("a"))
    async with Fleet(app, processes=2) as fleet:
        await fleet.get("/1")
        await fleet.guards[0].invalidate_tag("http:a")
        answers = await asyncio.gather(*fleet.herd(40, "/1"))
        assert {answer.body for answer in answers} == {b"answer 2"}
        assert app.calls == 2


async def test_an_invalidated_response_is_not_served_stale_and_replaces_no_error() -> None:
    app = App(grouped("a") | {"cache-control": "max-age=1, stale-while-revalidate=60, stale-if-error=60"})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(10)
        await fleet.guards[0].invalidate_tag("http:a")
        app.status, app.headers = 503, {}
        answer = await fleet.get()
        assert answer.status == 503
        assert "hit" not in status_of(answer)


async def test_an_invalidated_response_is_asked_for_without_its_validator() -> None:
    app = App(grouped("a", etag='"1"'))
    async with Fleet(app) as fleet:
        await fleet.get()
        await fleet.guards[0].invalidate_tag("http:a")
        await fleet.get()
        assert b"if-none-match" not in dict(app.scopes[-1]["headers"])


async def test_variants_of_a_group_go_with_it() -> None:
    app = App(grouped("a", vary="x"))
    async with Fleet(app) as fleet:
        for value in ("1", "2"):
            await fleet.get(x=value)
        await fleet.guards[0].invalidate_tag("http:a")
        for value in ("1", "2"):
            assert "hit" not in status_of(await fleet.get(x=value))


async def test_in_the_kill_switch_a_waiter_gets_nothing_from_before_the_invalidation() -> None:
    app = App(grouped("a"))
    async with Fleet(app, policy=Policy(mode="bypass")) as fleet:
        app.go.clear()
        early = asyncio.ensure_future(fleet.get())
        await app.called.wait()
        await fleet.guards[0].invalidate_tag("http:a")
        late = asyncio.ensure_future(fleet.get())
        await asyncio.sleep(0)
        app.go.set()
        assert (await early).body == b"answer 1"
        assert (await late).body == b"answer 2"


async def test_on_a_server_too(valkey_url: str, namespace: str) -> None:
    app = Site(grouped("a"))
    async with Fleet(app, processes=2, on=valkey_url, namespace=namespace) as fleet:
        await fleet.get("/1")
        assert "hit" in status_of(await fleet.get("/1", process=1))
        await fleet.get("/change", method="POST")
        assert "hit" not in status_of(await fleet.get("/1", process=1))
        assert "hit" in status_of(await fleet.get("/1", process=0))
