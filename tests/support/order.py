"""In which order the workers of a run take the tests: first those that are alone, then the long ones, then the rest.

A long test at the end of a run would leave the other workers without work. A test that is alone comes before anybody is
in the middle of something long, which it would have to wait for. Where few workers run, each begins with its share of
the list and later steals from others, so each share begins like that.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

__all__ = ["dealt", "is_long", "long_first"]

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
    "tests/audit/test_audited_app.py::test_forty_callers",
    "tests/test_example",
    "tests/test_site.py::test_the_site_builds",
    "tests/test_ten_minutes.py",
    "tests/engine/test_flood.py",
    "tests/traps/test_http_sweep.py",
    "tests/traps/test_leases_crowds.py",
)
"""Most tests in these take seconds. What several tests of a file share is made again by each worker that takes one."""

EARLY = (
    "tests/chaos/",
    "tests/http/suite/test_over_sockets.py",
    "tests/integrations/",
    "tests/leases/",
    "tests/ops/",
    "tests/traps/",
)
"""Files of these take up to a minute, and stay whole: their tests share what they start."""


def is_long(nodeid: str) -> bool:
    return nodeid.startswith(LONG)


def long_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """All of `items`, in the order in which workers that are asked one by one are to take them."""

    def turn(item: pytest.Item) -> int:
        if item.get_closest_marker("alone") is not None:
            return 0
        return 1 if is_long(item.nodeid) else 2 if item.nodeid.startswith(EARLY) else 3

    return sorted(items, key=turn)


def dealt(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """All of `items`, in `workers` shares of equal length, as pytest-xdist cuts them."""
    alone = [item for item in items if item.get_closest_marker("alone") is not None]
    others = [item for item in items if item.get_closest_marker("alone") is None]
    first = [*alone, *(item for item in others if is_long(item.nodeid))]
    rest = [item for item in others if not is_long(item.nodeid)]
    made: list[pytest.Item] = []
    for worker in range(workers):
        share = first[worker::workers]
        end = len(items) * (worker + 1) // workers
        taken = max(0, end - len(made) - len(share)) if worker < workers - 1 else len(rest)
        made += [*share, *rest[:taken]]
        rest = rest[taken:]
    return made
