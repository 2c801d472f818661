"""`python -m tests.engine.fuzz SEED`: that seed again, shrunk, with its journal. `python -m ... FIRST-LAST`: many."""

from __future__ import annotations

import sys

from tests.engine.fuzz.drawing import drawn
from tests.engine.fuzz.shrinking import judged, shrunk


def main() -> int:
    first, _, last = sys.argv[1].partition("-")
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


if __name__ == "__main__":
    sys.exit(main())
