"""Slots and runs in Redis or Valkey. All keys of a job are in one hash slot of a cluster."""

from __future__ import annotations
