"""`python -m bench.leases`: leases and jobs with many waiters, runs, claims and processes, on both stores."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.leases.scenes import claims, history, idle_fleet, one_answer, waiters
from bench.leases.stores import Measured, opened

FLEET = 200


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


async def measured(store: Measured, options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """Rows of a table, and the figures."""
    rows, figures = list[str](), dict[str, Any]()

    def row(what: str, figure: str) -> None:
        rows.append(f"| {store.name} | {what} | {figure} |")
        print(rows[-1], flush=True)

    alone = await one_answer(store)
    figures["alone"] = alone
    row("grant and release, no waiters", _ms(alone))
    crowds = [await waiters(store, count) for count in options.waiters]
    figures["waiters"] = [asdict(crowd) for crowd in crowds]
    for crowd in crowds:
        ratio = crowd.grant / crowds[0].grant
        row(
            f"next grant with {crowd.waiting:,} waiters",
            f"{_ms(crowd.grant)}, {ratio:.2f} x; {crowd.steps:.1f} steps of the server",
        )
    pasts = [await history(store, runs) for runs in options.runs]
    figures["history"] = [asdict(past) for past in pasts]
    for past in pasts:
        row(
            f"history of {past.runs:,} runs",
            f"a rare outcome {_ms(past.rare)}, the newest 1,000 {_ms(past.page)}; "
            f"a step {past.step * 1000:.2f} ms, the longest {_ms(past.longest)}; {past.prune_steps:,} of pruning",
        )
    burst = await claims(store, options.claims)
    figures["claims"] = asdict(burst)
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(burst.outcomes.items()))
    row(
        f"{burst.claims:,} claims at once",
        f"{told} in {burst.seconds:.1f} s; {burst.connections} connections",
    )
    idle = await idle_fleet(store, processes=options.processes, jobs=100)
    figures["idle"] = asdict(idle)
    row(
        f"a process with {idle.jobs} jobs that are not due",
        f"{idle.statements:.3f} statements/s, {idle.connections:.1f} connections; "
        f"{FLEET} of them: {idle.statements * FLEET:.1f} statements/s",
    )
    return rows, figures


async def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.leases", description=__doc__)
    parser.add_argument("--store", choices=("redis", "postgres"), action="append", help="default: both")
    parser.add_argument("--quick", action="store_true", help="smaller numbers")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    options = parser.parse_args(arguments)
    options.waiters = (10, 50) if options.quick else (10, 100, 1_000)
    options.runs = (1_000, 5_000) if options.quick else (1_000, 10_000, 100_000, 1_000_000)
    options.claims = 200 if options.quick else 2_000
    options.processes = 2 if options.quick else 4
    print("| store | what | figure |\n|---|---|---|")
    figures = {}
    for which in options.store or ("redis", "postgres"):
        async with opened(which) as store:
            _, figures[which] = await measured(store, options)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=2), "utf-8")


if __name__ == "__main__":
    asyncio.run(main())
