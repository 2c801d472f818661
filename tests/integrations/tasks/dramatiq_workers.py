"""The program `dramatiq`, with the work imported once. The processes that it forks find it there."""

from __future__ import annotations

import sys

from dramatiq.cli import main

from tests.integrations.tasks import dramatiq_actors

if __name__ == "__main__":
    sys.argv.insert(1, dramatiq_actors.__name__)
    sys.exit(main())
