"""`python -m tests.leases.simulation SEED`: that seed again, with its journal. `python -m ... FIRST-LAST`: many."""

from __future__ import annotations

import sys

from tests.leases.simulation.scenario import play


def main() -> int:
    first, _, last = sys.argv[1].partition("-")
    for seed in range(int(first), int(last or first) + 1):
        try:
            scenario = play(seed)
        except BaseException as error:
            print(
                "\n".join(error.scenario.journal), f"\nseed {seed}: {type(error).__name__}: {error}", sep=""
            )
            raise
        if not last:
            print("\n".join(scenario.journal), scenario.counts, sep="\n")
    return 0


sys.exit(main())
