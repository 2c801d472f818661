"""A fixed tenth of the suite: `pytest -p tests.support.tenth`, for a Python beside the one that runs all of it.

A test is in it or not by the hash of its id. So each run on each machine takes the same tests, new tests change nothing
for the old ones, and no part of the suite is left out. Tests that must be alone are, because others run beside these.
"""

from __future__ import annotations

import hashlib

import pytest

__all__ = ["SHARE", "chosen"]

SHARE = 10


def chosen(nodeid: str) -> bool:
    return int.from_bytes(hashlib.sha256(nodeid.encode()).digest()[:8], "big") % SHARE == 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    taken = [item for item in items if chosen(item.nodeid) and item.get_closest_marker("alone") is None]
    left = set(items) - set(taken)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = taken
