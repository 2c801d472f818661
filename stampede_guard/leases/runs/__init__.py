"""Slots and their runs. A slot, (job, scheduled time), is claimed once and has exactly one outcome."""

from __future__ import annotations
