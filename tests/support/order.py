"""In which order the workers of a run take the tests: first those that are alone, then the long ones, then the rest.

A worker begins with its share of the list and later steals from others. A long test at the end of a run would leave the
other workers without work, so each share begins with long tests. A test that is alone comes before anybody is in the
middle of something long, which it would have to wait for.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

__all__ = ["dealt"]

LONG = (
    "tests/soak/test_soak.py",
    "tests/integration/test_herd.py",
    "tests/core/test_search.py",
    "tests/core/test_tags.py",
    "tests/core/test_mutations.py",
    "tests/leases/contract/test_machine.py",
    "tests/leases/simulation/",
    "tests/jobs/test_weather.py",
    "tests/jobs/test_pods.py",
    "tests/chaos/",
    "tests/bench/test_scale.py",
    "tests/bench/test_serve.py",
    "tests/audit/test_audited_app.py",
    "tests/test_example",
    "tests/test_site.py",
    "tests/test_ten_minutes.py",
    "tests/engine/test_flood.py",
    "tests/traps/test_http_sweep.py",
    "tests/traps/test_leases_crowds.py",
)
"""Most tests in these take seconds."""


def dealt(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """All of `items`, in `workers` shares of equal length, as pytest-xdist cuts them."""
    alone = [item for item in items if item.get_closest_marker("alone") is not None]
    others = [item for item in items if item.get_closest_marker("alone") is None]
    first = [*alone, *(item for item in others if item.nodeid.startswith(LONG))]
    rest = [item for item in others if not item.nodeid.startswith(LONG)]
    made: list[pytest.Item] = []
    for worker in range(workers):
        share = first[worker::workers]
        end = len(items) * (worker + 1) // workers
        taken = max(0, end - len(made) - len(share)) if worker < workers - 1 else len(rest)
        made += [*share, *rest[:taken]]
        rest = rest[taken:]
    return made
