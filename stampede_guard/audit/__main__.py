"""`python -m stampede_guard.audit PATH ...`."""

from __future__ import annotations

import sys

from stampede_guard.audit.command import main

if __name__ == "__main__":
    sys.exit(main())
