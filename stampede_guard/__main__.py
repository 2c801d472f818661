"""`python -m stampede_guard` is `stampede-guard`."""

from __future__ import annotations

from stampede_guard.ops.cli import main

main()
