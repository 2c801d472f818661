"""Random requests, answers, clock steps and invalidations against a small reference model of a shared cache.

The model is told of every call of the application, and judges every answer: whole and of one call; never one that was
not to be stored, or somebody else's variant, or an answer to credentials that does not say it is for all; never one
from before an invalidation; never older than it may be. Clients leave, and the application fails, at any moment.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stampede_guard import CacheRoute
from stampede_guard.http.spec.dates import format_date
from tests.http.fleet import Fleet, start

ROUTED, ROUTE_TTL = "/r", 20
SINCE = 1000
"""Seconds since the last change, where it is told: a tenth of them is what a cache may guess."""


class Broken(Exception):
    """What the application raises."""


@dataclass(frozen=True)
class Said:
    """What the application says of its answers from now on."""

    max_age: int | None = None
    swr: int | None = None
    sie: int | None = None
    flags: tuple[str, ...] = ()
    vary: bool = False
    etag: bool = False
    status: int = 200
    cookie: bool = False
    chunks: int = 1
    s_maxage: int | None = None
    modified: bool = False
    fails: str = ""

    @property
    def explicit(self) -> bool:
        return self.max_age is not None or self.s_maxage is not None

    def life(self, path: str) -> float:
        """Seconds; a tenth of the time since the last change where nothing else is said."""
        if self.s_maxage is not None:
            return self.s_maxage
        if self.max_age is not None:
            return self.max_age
        if path == ROUTED and not {"no-store", "private", "no-cache"} & set(self.flags):
            return ROUTE_TTL
        return SINCE / 10 if self.modified and (self.status in (200, 404) or "public" in self.flags) else 0

    @property
    def cache_control(self) -> str:
        told = {"max-age": self.max_age, "stale-while-revalidate": self.swr, "stale-if-error": self.sie}
        told["s-maxage"] = self.s_maxage
        return ", ".join([*(f"{name}={n}" for name, n in told.items() if n is not None), *self.flags])


@dataclass(frozen=True)
class Call:
    """One call of the application, as it was begun."""

    number: int
    said: Said
    at: float
    fence: int
    tenant: str
    path: str
    known: str = ""


FLAGS = ["no-store", "private", "no-cache", "must-revalidate", "public"]
PATHS = st.sampled_from(["/a", "/a", "/a", "/b", ROUTED])
KNOWN = ["", "", "", "authorization", "cookie"]
# Mostly something that can be stored: what is never stored shows little.
says = st.builds(
    Said,
    max_age=st.sampled_from([10, 10, 10, 50, 50, 3, 0, None]),
    swr=st.sampled_from([None, None, 10, 50]),
    sie=st.sampled_from([None, None, 10, 50]),
    flags=st.sampled_from([(), (), (), (), *((flag,) for flag in FLAGS)]),
    vary=st.booleans(),
    etag=st.booleans(),
    status=st.sampled_from([200, 200, 200, 200, 404, 500]),
    cookie=st.sampled_from([False, False, False, True]),
    chunks=st.integers(0, 3),
    s_maxage=st.sampled_from([None, None, None, 10, 30]),
    modified=st.sampled_from([False, False, True]),
    fails=st.sampled_from(["", "", "", "", "before", "middle", "middle"]),
)
gets = st.tuples(
    st.just("get"),
    PATHS,
    st.sampled_from(["x", "y"]),
    st.integers(1, 4),
    st.sampled_from([False, False, True]),
    st.sampled_from(KNOWN),
)
steps = st.one_of(
    gets,
    gets,
    gets,
    st.tuples(st.just("say"), says),
    st.tuples(st.just("say"), says),
    st.tuples(st.just("clock"), st.sampled_from([1, 5, 5, 15, 30])),
    st.tuples(st.just("put"), PATHS),
    st.tuples(st.just("post"), PATHS, PATHS),
    st.tuples(st.just("leave"), PATHS, st.integers(0, 12), st.integers(0, 3)),
)


class Model:
    def __init__(self) -> None:
        self.said = Said(max_age=10)
        self.calls: dict[int, Call] = {}
        self.fences = {"/a": 0, "/b": 0, ROUTED: 0}
        self.fleet: Any = None

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        fields = {name.decode(): value.decode() for name, value in scope["headers"]}
        said, path = self.said, scope["path"]
        if scope["method"] in ("PUT", "POST"):
            await start(send, {"location": fields["other"]} if "other" in fields else {})
            await send({"type": "http.response.body", "body": b"done"})
            return
        number = len(self.calls) + 1
        self.calls[number] = Call(
            number,
            said,
            self.fleet.clock.now,
            self.fences[path],
            fields.get("tenant", ""),
            path,
            next((name for name in KNOWN if name and name in fields), ""),
        )
        if said.fails == "before":
            raise Broken
        headers = {"number": str(number)}
        if said.cache_control:
            headers["cache-control"] = said.cache_control
        if said.vary:
            headers["vary"] = "tenant"
        if said.cookie:
            headers["set-cookie"] = f"session={number}"
        if said.modified:
            headers["last-modified"] = format_date(self.fleet.clock.now - SINCE).decode()
        if said.etag:
            headers["etag"] = '"same"'
            # A 304 that says nothing of its lifetime leaves the stored one as it was; here each call says its own.
            if said.cache_control and fields.get("if-none-match") == '"same"':
                await start(send, headers, 304)
                await send({"type": "http.response.body", "body": b""})
                return
        await start(send, headers, said.status)
        for _ in range(said.chunks):
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": f"[{number}]".encode(), "more_body": True})
        if said.fails == "middle":
            raise Broken
        await send({"type": "http.response.body", "body": b""})

    def judge(self, path: str, tenant: str, answer: Any, before: int, fence: int, others: int) -> None:
        number = int(answer.get("number"))
        call = self.calls[number]
        said = call.said
        assert call.path == path
        assert answer.body.count(b"[") == answer.body.count(b"]"), "torn"
        numbers = set(answer.body.decode().strip("[]").split("][")) - {""}
        assert len(numbers) <= 1, "two answers in one"
        if numbers:
            made = self.calls[int(numbers.pop())]
            assert answer.body == f"[{made.number}]".encode() * made.said.chunks, "torn"
            # The body of an older call may stand under the fields of a 304: then both were confirmed.
            assert made.number == number or said.etag
        if number > before:
            # Called for this very step: its own, or collapsed with others of this step.
            if others > 1 and call.tenant != tenant:
                assert not said.vary
            return
        assert call.fence >= fence, "from before an invalidation"
        assert not said.fails, "broken off"
        assert "no-store" not in said.flags, "not to be stored"
        assert "private" not in said.flags, "somebody's own"
        assert "no-cache" not in said.flags, "not to be used without validation"
        assert not said.cookie or said.explicit, "somebody's cookie"
        public = "public" in said.flags
        if call.known == "authorization":
            assert public or said.s_maxage is not None or "must-revalidate" in said.flags, "not for all"
        assert not call.known or said.explicit or public, "guessed for somebody"
        assert not said.vary or call.tenant == tenant, "somebody else's variant"
        # Without a lifetime it is stale from the first moment on.
        age, life = self.fleet.clock.now - call.at, said.life(path)
        if age >= life:
            assert "must-revalidate" not in said.flags, "stale"
            assert age - life < max(said.swr or 0, said.sie or 0), "staler than allowed"

    @staticmethod
    def number(answer: Any) -> int:
        return int(answer.get("number"))

    @staticmethod
    def is_private(said: Said) -> bool:
        return bool({"no-store", "private"} & set(said.flags)) or (said.cookie and not said.explicit)

    async def play(self, played: list[Any]) -> None:
        async with Fleet(self.app, processes=2, routes=[CacheRoute(ROUTED, ttl=ROUTE_TTL)]) as fleet:
            self.fleet = fleet
            for step in played:
                await self.step(fleet, step)

    async def step(self, fleet: Fleet, step: Any) -> None:
        match step:
            case ("say", said):
                self.said = said
            case ("clock", seconds):
                fleet.clock.advance(seconds)
            case ("put", path):
                await fleet.get(path, method="PUT")
                self.fences[path] += 1
            case ("post", path, other):
                await fleet.get(path, method="POST", other=other)
                for changed in {path, other}:
                    self.fences[changed] += 1
            case ("leave", path, ticks, who):
                herd = fleet.herd(4, path, tenant="x")
                for _ in range(ticks):
                    await asyncio.sleep(0)
                herd[who].cancel()
                ended = await asyncio.gather(*herd, return_exceptions=True)
                wrong = (asyncio.CancelledError, Broken)
                assert [
                    one for one in ended if isinstance(one, BaseException) and not isinstance(one, wrong)
                ] == []
                await fleet.settled()
            case ("get", path, tenant, count, fresh, known):
                before, fence = len(self.calls), self.fences[path]
                fields = {"tenant": tenant} | ({"cache_control": "max-age=0"} if fresh else {})
                fields |= {known: "me"} if known else {}
                requests = [fleet.get(path, process=n % 2, **fields) for n in range(count)]
                ended = await asyncio.gather(*requests, return_exceptions=True)
                for one in ended:
                    if isinstance(one, BaseException) and not isinstance(one, Broken):
                        raise one
                answers = [one for one in ended if not isinstance(one, BaseException) and one.get("number")]
                for answer in answers:
                    self.judge(path, tenant, answer, before, fence, count)
                private = [n for n in map(self.number, answers) if self.is_private(self.calls[n].said)]
                assert len(private) == len(set(private)), "one client's answer given to two"
                await fleet.settled()


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, min_size=8, max_size=24))
def test_no_answer_is_private_expired_torn_or_of_before_an_invalidation(played: list[Any]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await Model().play(played)

    asyncio.run(bounded())
