"""`python -m tests.soak --store valkey --seconds 600 --seed 7`: a long soak with progress; a violation exits with 1."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.engine.fuzz.shrinking import fuzz
from tests.http.large.fuzz.judge import fuzz_large
from tests.soak.conductor import soak
from tests.soak.faults import STORES
from tests.soak.memory import soak_in_memory

MEMORY = "memory"
"""One process, and several event loops: without `--mutant`."""
ENGINE = "engine"
"""Seeds of `tests/engine/fuzz`, from the given one on, in virtual time: without `--mutant`."""
LARGE = "large"
"""The same with seeds of `tests/http/large/fuzz`."""
FUZZES = {ENGINE: fuzz, LARGE: fuzz_large}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak SOAK_ARGS=...", description=__doc__)
    parser.add_argument("--store", choices=[*STORES, MEMORY, *FUZZES, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each store")
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and printed")
    parser.add_argument(
        "--mutant", default="", help="take this rule out of the library: see tests/soak/mutants.py"
    )
    parser.add_argument("--keep", type=Path, default=None, help="a folder for the journals")
    given = parser.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    wrong = 0
    for store in [*STORES, MEMORY, *FUZZES] if given.store == "all" else [given.store]:
        with tempfile.TemporaryDirectory(prefix="soak-") as made:
            folder = (given.keep / store) if given.keep else Path(made)
            folder.mkdir(parents=True, exist_ok=True)
            print(f"{store}, {given.seconds:.0f} s, seed {seed}", flush=True)
            if store in FUZZES:
                violations_of_seeds = FUZZES[store](seed, seconds=given.seconds)
                print(*violations_of_seeds, sep="\n", flush=True)
                wrong += len(violations_of_seeds)
                continue
            if store == MEMORY:
                violations, events = soak_in_memory(folder, seconds=given.seconds, seed=seed)
                print(f"seed {seed}: {len(events)} events", *violations, sep="\n", flush=True)
                wrong += len(violations)
                continue
            run = soak(
                folder, store=store, seconds=given.seconds, seed=seed, mutant=given.mutant,
                say=lambda text: print(f"  {text}", flush=True),
            )  # fmt: skip
            report = asyncio.run(run)
            print(report, flush=True)
            wrong += len(report.violations)
    print(f"{wrong} violations", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
