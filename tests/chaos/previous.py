"""A worker process of the version before: its value layout and its scripts, the rest as today.

`python -m tests.chaos.previous FD SETTINGS`, like `tests.chaos.worker`.
"""

from __future__ import annotations

import runpy

from tests.stores import layout1

if __name__ == "__main__":
    layout1.pose()
    runpy.run_module("tests.chaos.worker", run_name="__main__")
