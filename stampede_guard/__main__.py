"""`python -m stampede_guard` is `stampede-guard`."""

from __future__ import annotations

from stampede_guard.cli import main

main()
