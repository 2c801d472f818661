"""Fleets of worker processes, on the shared server or on one that may be struck."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.herd.valkey import ValkeyServer
from tests.chaos.fleet import STRUCK, Fleet
from tests.support.sessions import LONG


@pytest.fixture
async def fleet(valkey_url: str, namespace: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Workers on the server that all tests share, and that no test stops: so it is late only on a busy machine."""
    async with Fleet(valkey_url, namespace, tmp_path, deadline=LONG) as fleet:
        yield fleet


@pytest.fixture
async def own_fleet(own_valkey: ValkeyServer, namespace: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Workers on a server of this test alone (`own_valkey`)."""
    async with Fleet(own_valkey.url, namespace, tmp_path, deadline=STRUCK) as fleet:
        yield fleet
