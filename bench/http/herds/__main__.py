"""`python -m bench.http.herds`: ours, nginx and Varnish, case by case. A minute."""

from __future__ import annotations

import asyncio
import contextlib
import sys

from bench.http.herds.fronts import FRONTS, behind, program
from bench.http.herds.origin import CASES
from bench.http.herds.play import Herded, play, running
from tests.http.suite.cases import OWN, read
from tests.http.suite.play import Result
from tests.http.suite.sockets import play_all, serving

_OURS = "ours"


async def herds(cache: str) -> dict[str, Herded]:
    played: list[Herded] = []
    for kills in (False, True):
        cases = [case for case in CASES.values() if ("kills" in case) is kills]
        async with running("ours" if cache == _OURS else "make", kills=kills) as port:
            with contextlib.ExitStack() as stack:
                front = (
                    port
                    if cache == _OURS
                    else await asyncio.to_thread(stack.enter_context, behind(cache, port))
                )
                played += await asyncio.gather(*(play(case, front) for case in cases))
    return {one.id: one for one in played}


async def conformance(cache: str) -> dict[str, Result]:
    application = "tests.http.suite.server:make" if cache == _OURS else "tests.http.suite.server:origin"
    async with serving("uvicorn", app=application, HTTP_CACHE_TESTS=str(OWN)) as port:
        with contextlib.ExitStack() as stack:
            front = (
                port if cache == _OURS else await asyncio.to_thread(stack.enter_context, behind(cache, port))
            )
            all_cases = read(OWN)
            # An invalidation of any group costs each response under way one more call: these do not disturb each other.
            alone = {name: case for name, case in all_cases.items() if name.startswith("group-")}
            played = await play_all(
                {name: case for name, case in all_cases.items() if name not in alone}, front, run="herds"
            )
            played += await play_all(alone, front, run="herds", at_once=1)
    return {one.id: one for one in played}


async def main() -> int:
    caches = [_OURS, *FRONTS]
    herded: dict[str, dict[str, Herded]] = {}
    played: dict[str, dict[str, Result]] = {}
    for cache in caches:
        if cache in FRONTS and program(cache) is None:
            continue
        herded[cache], played[cache] = await herds(cache), await conformance(cache)
    print(f"| case | what should happen | {' | '.join(caches)} |")
    print("| --- | --- |" + " --- |" * len(caches))
    for name, case in CASES.items():
        print(f"| {name} | {case['about']} | {' | '.join(_herd(herded, cache, name) for cache in caches)} |")
    for name, test in read(OWN).items():
        cells = " | ".join(_case(played, cache, name) for cache in caches)
        print(f"| {name} | {test.kind} | {cells} |")
    ours = herded[_OURS]
    required = [one for one in played[_OURS].values() if one.kind == "required"]
    return int(any(ours[name].wrong for name in CASES) or not all(one.passed for one in required))


def _herd(found: dict[str, dict[str, Herded]], cache: str, name: str) -> str:
    if cache not in found:
        return "NOT RUN"
    one = found[cache][name]
    return one.wrong or f"{one.calls} calls, {one.seconds:.1f} s"


def _case(found: dict[str, dict[str, Result]], cache: str, name: str) -> str:
    if cache not in found:
        return "NOT RUN"
    one = found[cache][name]
    return "yes" if one.passed else "no"


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
