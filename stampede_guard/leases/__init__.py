"""Leases, elections and jobs: what must run once runs once, on any number of workers and pods.

Caches fail open; leases fail closed: with the back end away nothing new starts, and what runs is told.
"""

from __future__ import annotations
