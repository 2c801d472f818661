"""`python -m tests.http.fuzz SEED` or `FIRST-LAST`: the violations of these seeds."""

from __future__ import annotations

import sys

from tests.http.fuzz.judge import judged

first, _, last = sys.argv[1].partition("-")
failed = 0
for seed in range(int(first), int(last or first) + 1):
    site, wrong = judged(seed)
    if wrong:
        failed += 1
        print(f"seed {seed}:", *wrong[:3], sep="\n   ", flush=True)
        if not last:
            print(site.case.options, *site.case.steps, *site.calls, sep="\n")
print(f"{failed} seeds failed")
sys.exit(min(failed, 1))
