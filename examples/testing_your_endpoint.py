"""Tests of an endpoint of yours: its herd is one computation, also after an expiry and while Redis is away.

    pytest examples/testing_your_endpoint.py

or without pytest:

    python examples/testing_your_endpoint.py

which prints, the first time:

    50 callers in 8 workers: 1 query
    after an expiry: 1 query
    unprotected: quality was computed 50 times for 50 callers in 8 workers, and should have been once.
    Redis away: 20 answers like {'project': 7, 'good': 80} from 1 query
"""

from __future__ import annotations

import asyncio
import logging

from fastapi import FastAPI

from stampede_guard import StampedeGuard
from stampede_guard.testing import FakeClock, FaultyStore, assert_single_flight, herd, on_store

# --- your application -------------------------------------------------------------------------------------

app = FastAPI()
guard = StampedeGuard.from_url("redis://localhost:6379/0", namespace="shop")
guard.install(app)


@app.get("/quality")
@guard.locked_cache(ttl=300, name="quality")
async def quality(project: int) -> dict[str, int]:
    await asyncio.sleep(0.1)  # your 450 ms query
    return {"project": project, "good": 80}


# --- your tests: no Redis is needed -----------------------------------------------------------------------


def test_a_herd_on_the_endpoint_is_one_query() -> None:
    clock = FakeClock()
    with on_store(guard, FaultyStore(clock=clock)):
        result = asyncio.run(assert_single_flight(app, "/quality?project=7", callers=50, workers=8))
        print(f"{result.callers} callers in {result.workers} workers: {result.computations} query")
        clock.advance(301)
        result = asyncio.run(assert_single_flight(app, "/quality?project=7"))
        print(f"after an expiry: {result.computations} query")


def test_an_endpoint_that_is_not_protected_is_found_out() -> None:
    quality.set_mode("off")
    try:
        asyncio.run(assert_single_flight(app, "/quality?project=7"))
    except AssertionError as error:
        print("unprotected:", str(error).partition(" Is it")[0])
    finally:
        quality.set_mode(None)


def test_while_redis_is_away_a_worker_runs_one_query() -> None:
    with on_store(guard, FaultyStore()) as store:
        store.fail()
        result = asyncio.run(herd(quality, args=(7,), callers=20, workers=1))
        assert not result.errors
        print(
            f"Redis away: {len(result.values)} answers like {result.values[0]} from {result.computations} query"
        )


if __name__ == "__main__":
    logging.disable()
    test_a_herd_on_the_endpoint_is_one_query()
    test_an_endpoint_that_is_not_protected_is_found_out()
    test_while_redis_is_away_a_worker_runs_one_query()
