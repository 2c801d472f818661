"""Slots and runs in PostgreSQL, beside the leases."""

from __future__ import annotations
