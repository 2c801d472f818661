"""Real servers and proxies for the traps: those of the stores' tests."""

from __future__ import annotations

from tests.stores.conftest import outside, proxy, server, sessions

__all__ = ["outside", "proxy", "server", "sessions"]
