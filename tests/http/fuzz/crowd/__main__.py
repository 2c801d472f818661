"""`python -m tests.http.fuzz.crowd SEED`: that seed again, with its journal. `FIRST-LAST`: many."""

from __future__ import annotations

import sys

from tests.http.fuzz.crowd.drawing import drawn
from tests.http.fuzz.crowd.judge import judged


def main() -> int:
    first, _, last = sys.argv[1].partition("-")
    failed = 0
    for seed in range(int(first), int(last or first) + 1):
        crowd, wrong = judged(drawn(seed))
        if wrong:
            failed += 1
            print(f"seed {seed}:", *wrong[:3], sep="\n   ", flush=True)
            if not last:
                print(*crowd.journal.lines, crowd.case, *wrong, sep="\n")
    print(f"{failed} seeds failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
