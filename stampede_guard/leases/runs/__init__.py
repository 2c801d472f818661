"""Slots and their runs: a slot, (job, scheduled time), is claimed once and has exactly one outcome."""

from __future__ import annotations
