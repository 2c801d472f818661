"""The short ways of a hit give what the long ways give, and stay short."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.reuse import verdict
from stampede_guard.values.parts.parts import escape
from tests.http.fleet import App, Fleet, cached, status_of
from tests.support.counted import counted

NAMES = (b"no-cache", b"must-revalidate", b"s-maxage", b"public", b"stale-while-revalidate", b"private")
DIRECTIVES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from([None, b"60", b"set-cookie"])), unique_by=lambda d: d[0]
)
SECONDS = st.floats(min_value=0, max_value=100)


@given(directives=DIRECTIVES, age=SECONDS, lifetime=SECONDS)
def test_what_serves_all_is_fresh_for_a_request_that_says_nothing(
    directives: list[tuple[bytes, bytes | None]], age: float, lifetime: float
) -> None:
    stored = StoredResponse(200, (), b"", age=0.0, lifetime=lifetime, directives=tuple(directives))
    if stored.serves_all(age):
        assert verdict(stored.situation(age), ()) == "fresh"
    else:
        assert age >= lifetime or b"no-cache" in dict(directives)


@given(text=st.one_of(st.text(), st.text("aZ09-_.~@:/+= %\n\u0663"), st.just("\ud800")))
def test_a_text_that_is_escaped_the_short_way_is_the_one_of_the_long_way(text: str) -> None:
    assert escape(text) == quote(text, safe="-_.~@:/+=", errors="surrogatepass")


MOST_CALLS = 47
MOST_CALLS_OF_A_MISS = 575
"""Raise them only for a reason. One more call on a hit costs about half a percent of it. A miss of another lifetime
than the one before, in milliseconds, calls forty more."""
ROUNDS = 6
"""Of a miss; the shortest counts."""


async def test_a_hit_calls_few_python_functions() -> None:
    async with Fleet(App(cached(content_length="8"))) as fleet:
        await fleet.get()
        await fleet.settled()
        with counted() as calls:
            answer = await fleet.get(accept="*/*", user_agent="x")
    assert "hit" in status_of(answer)
    assert 10 < len(calls) <= MOST_CALLS, calls


async def test_a_miss_calls_few_python_functions() -> None:
    async with Fleet(App(cached(content_length="8"))) as fleet:
        await fleet.get("/first")
        rounds = []
        for number in range(ROUNDS):
            await fleet.settled()
            with counted() as calls:
                answer = await fleet.get(f"/{number}", accept="*/*", user_agent="x")
            assert "fwd=uri-miss" in status_of(answer)
            rounds.append(calls)
    calls = min(rounds, key=len)
    assert 100 < len(calls) <= MOST_CALLS_OF_A_MISS, (len(calls), sorted(calls))


async def test_hits_of_one_turn_decode_a_stored_response_twice_at_most(
    valkey_url: str, namespace: str
) -> None:
    async with Fleet(App(cached()), on=valkey_url, namespace=namespace) as fleet:
        await fleet.get()
        await fleet.settled()
        with counted() as calls:
            answers = await asyncio.gather(*fleet.herd(20))
    assert {answer.body for answer in answers} == {b"answer 1"}
    assert all("hit" in status_of(answer) for answer in answers)
    assert 1 <= calls.count("HttpCodec.decode") <= 2
