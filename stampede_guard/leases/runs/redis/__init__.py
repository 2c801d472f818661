"""Slots and runs in Redis or Valkey: what belongs to one job is in one slot of a cluster."""

from __future__ import annotations
