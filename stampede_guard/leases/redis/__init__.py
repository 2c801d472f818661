"""Leases in Redis or Valkey (7.0 and later; cluster and sentinel too): one script a step, on the server's clock."""

from __future__ import annotations
