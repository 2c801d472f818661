"""Random requests, answers, clock steps and invalidations against a small reference model of a shared cache.

The model is told of every call of the application, and judges every answer: whole and of one call; never one that was
not to be stored, or somebody else's variant; never one from before an invalidation; never older than it may be.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.http.fleet import Fleet, start


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

    @property
    def cache_control(self) -> str:
        told = {"max-age": self.max_age, "stale-while-revalidate": self.swr, "stale-if-error": self.sie}
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


FLAGS = ["no-store", "private", "no-cache", "must-revalidate", "public"]
PATHS = st.sampled_from(["/a", "/a", "/a", "/b"])
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
)
gets = st.tuples(
    st.just("get"),
    PATHS,
    st.sampled_from(["x", "y"]),
    st.integers(1, 4),
    st.sampled_from([False, False, True]),
)
steps = st.one_of(
    gets,
    gets,
    gets,
    st.tuples(st.just("say"), says),
    st.tuples(st.just("clock"), st.sampled_from([1, 5, 5, 15, 30])),
    st.tuples(st.just("put"), PATHS),
)


class Model:
    def __init__(self) -> None:
        self.said = Said(max_age=10)
        self.calls: dict[int, Call] = {}
        self.fences = {"/a": 0, "/b": 0}
        self.fleet: Any = None

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        fields = {name.decode(): value.decode() for name, value in scope["headers"]}
        said, path = self.said, scope["path"]
        if scope["method"] == "PUT":
            await start(send, {})
            await send({"type": "http.response.body", "body": b"done"})
            return
        number = len(self.calls) + 1
        self.calls[number] = Call(
            number, said, self.fleet.clock.now, self.fences[path], fields.get("tenant", ""), path
        )
        headers = {"number": str(number)}
        if said.cache_control:
            headers["cache-control"] = said.cache_control
        if said.vary:
            headers["vary"] = "tenant"
        if said.cookie:
            headers["set-cookie"] = f"session={number}"
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
        assert "no-store" not in said.flags, "not to be stored"
        assert "private" not in said.flags, "somebody's own"
        assert "no-cache" not in said.flags, "not to be used without validation"
        assert not said.cookie or said.max_age is not None, "somebody's cookie"
        assert not said.vary or call.tenant == tenant, "somebody else's variant"
        # Without a lifetime it is stale from the first moment on.
        age, life = self.fleet.clock.now - call.at, said.max_age or 0
        if age >= life:
            assert "must-revalidate" not in said.flags, "stale"
            assert age - life < max(said.swr or 0, said.sie or 0), "staler than allowed"

    @staticmethod
    def number(answer: Any) -> int:
        return int(answer.get("number"))

    @staticmethod
    def is_private(said: Said) -> bool:
        return bool({"no-store", "private"} & set(said.flags)) or (said.cookie and said.max_age is None)

    async def play(self, played: list[Any]) -> None:
        async with Fleet(self.app, processes=2) as fleet:
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
            case ("get", path, tenant, count, fresh):
                before, fence = len(self.calls), self.fences[path]
                fields = {"tenant": tenant} | ({"cache_control": "max-age=0"} if fresh else {})
                requests = [fleet.get(path, process=n % 2, **fields) for n in range(count)]
                answers = [answer for answer in await asyncio.gather(*requests) if answer.get("number")]
                for answer in answers:
                    self.judge(path, tenant, answer, before, fence, count)
                private = [n for n in map(self.number, answers) if self.is_private(self.calls[n].said)]
                assert len(private) == len(set(private)), "one client's answer given to two"
                await fleet.settled()


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, min_size=8, max_size=24))
def test_no_answer_is_private_expired_torn_or_of_before_an_invalidation(played: list[Any]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await Model().play(played)

    asyncio.run(bounded())
