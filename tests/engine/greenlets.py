"""A program under gevent: `python -m tests.engine.greenlets early|late URL NAMESPACE`. It prints "done".

`late` patches after the imports, as gunicorn does with `--preload`.
"""

from __future__ import annotations

import sys

if sys.argv[1] == "early":
    from gevent import monkey

    monkey.patch_all()

import asyncio
import gc
import os
import time

import gevent
from gevent.event import Event

from stampede_guard import StampedeGuard
from stampede_guard.engine.threads.portal import Portal

if sys.argv[1] == "late":
    from gevent import monkey

    monkey.patch_all()

guard = StampedeGuard.from_url(sys.argv[2], namespace=sys.argv[3])
computations: list[int] = []
begun, gate = Event(), Event()


@guard.locked_cache(ttl=600, name="held")
def held(number: int) -> int:
    computations.append(number)
    begun.set()
    assert gate.wait(60.0), "the greenlet that opens the gate did not run"
    return number * 2


@guard.locked_cache(ttl=600, name="double")
def double(number: int) -> int:
    time.sleep(0)
    return number * 2


def herd() -> None:
    """The first calls of the process, all at once. This greenlet runs while they wait: it opens the gate."""
    callers = [gevent.spawn(held, 7) for _ in range(50)]
    assert begun.wait(60.0)
    gate.set()
    gevent.joinall(callers, raise_error=True)
    assert [caller.value for caller in callers] == [14] * 50
    assert computations == [7]
    assert len(portals()) == 1


def loops_of_others() -> None:
    """A greenlet may run an event loop of its own, while that of plain functions waits and works."""

    async def program() -> list[int]:
        assert asyncio.get_running_loop().get_debug()
        found = []
        for number in range(20):
            other = gevent.spawn(double, number)
            while not other.ready():  # noqa: ASYNC110 - a greenlet has no event of asyncio
                await asyncio.sleep(0.001)
            assert asyncio.get_running_loop().get_debug()
            found.append(other.value)
        return found

    assert asyncio.run(program(), debug=True) == [number * 2 for number in range(20)]
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AssertionError("a loop of another greenlet is seen as running here")


def fork() -> None:
    """A child has copies of all greenlets. Its copy of the loop must not take the parent's events."""
    child = os.fork()
    if child == 0:
        try:
            for number in range(100, 120):
                assert double(number) == number * 2
            assert sorted(portal.ended for portal in portals()) == [False, True]
        except BaseException as error:
            print("the child failed:", repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    for number in range(200, 300):
        with gevent.Timeout(30.0):
            assert double(number) == number * 2
    assert os.waitpid(child, 0)[1] == 0


def interrupted() -> None:
    """A caller that gives up leaves its flight. The others get the value."""
    gate.clear()
    begun.clear()
    patient = gevent.spawn(held, 8)
    hasty = gevent.spawn(held, 8)
    assert begun.wait(60.0)
    hasty.kill()
    gate.set()
    assert patient.get(timeout=60.0) == 16
    assert isinstance(hasty.value, gevent.GreenletExit)


def portals() -> list[Portal]:
    return [one for one in gc.get_objects() if type(one) is Portal]


if __name__ == "__main__":
    herd()
    loops_of_others()
    interrupted()
    fork()
    assert held.invalidate(7) == "done"
    print("done")
