"""The program `dramatiq`, with the work imported once. The processes that it forks find it there."""

from __future__ import annotations

import importlib
import sys

from dramatiq.cli import main

ACTORS = "tests.integrations.tasks.dramatiq_actors"

if __name__ == "__main__":
    # In Python 3.13.0, a thread that was made before a fork cannot be started after it. The broker makes such a thread.
    if sys.version_info[:3] != (3, 13, 0):
        importlib.import_module(ACTORS)
    sys.argv.insert(1, ACTORS)
    sys.exit(main())
