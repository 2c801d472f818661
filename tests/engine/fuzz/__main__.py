"""`python -m tests.engine.fuzz SEED`: that seed again, shrunk, with its journal. `python -m ... FIRST-LAST`: many.

`python -m tests.engine.fuzz threads FIRST-LAST`: real threads, which no seed repeats.
"""

from __future__ import annotations

import logging
import sys

from tests.engine.fuzz.drawing import drawn
from tests.engine.fuzz.shrinking import judged, shrunk
from tests.engine.fuzz.threads import threads_of


def main() -> int:
    first, _, last = sys.argv[-1].partition("-")
    if sys.argv[1] == "threads":
        return threads(range(int(first), int(last or first) + 1))
    failed = 0
    for seed in range(int(first), int(last or first) + 1):
        _, wrong = judged(drawn(seed))
        if not wrong:
            continue
        failed += 1
        print(f"seed {seed}:", *wrong[:3], sep="\n   ", flush=True)
        if not last:
            case = shrunk(drawn(seed), wrong[0])
            fleet, wrong = judged(case)
            print(*fleet.journal.lines, case.weather, *case.keys.values(), *wrong, sep="\n")
    print(f"{failed} seeds failed")
    return min(failed, 1)


def threads(seeds: range) -> int:
    logging.disable(logging.CRITICAL)
    failed = 0
    for seed in seeds:
        wrong = threads_of(seed)
        if wrong:
            failed += 1
            print(f"threads {seed}:", *wrong[:3], sep="\n   ", flush=True)
    print(f"{failed} of {len(seeds)} runs failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
