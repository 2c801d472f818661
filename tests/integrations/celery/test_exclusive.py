"""`exclusive`: one run of a task at a time, for each value of its arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stampede_guard.errors import KeyPartError, Misuse, PolicyError
from stampede_guard.integrations.celery import exclusive
from stampede_guard.leases import MemoryLeases
from stampede_guard.leases.exclusive import current_lease
from stampede_guard.leases.memory import LeaseRows


@pytest.fixture
def leases() -> Iterator[MemoryLeases]:
    made = MemoryLeases(namespace="shop", rows=LeaseRows())
    yield made
    made.close()


def test_a_task_that_does_not_run_returns_none_which_is_json(leases: MemoryLeases) -> None:
    inner: list[Any] = []

    @exclusive(leases)
    def import_all() -> str:
        if not inner:
            inner.append(None)
            inner[0] = import_all()
        lease = current_lease()
        assert lease is not None
        return lease.name

    assert import_all() == f"shop:{__name__}.{import_all.__qualname__}"
    assert inner == [None]
    assert json.dumps(inner) == "[null]"


def test_each_value_of_a_named_parameter_has_a_lease_of_its_own(leases: MemoryLeases) -> None:
    seen: list[str] = []

    @exclusive(leases, "sync:{repository}:{branch}")
    def sync(repository: str, branch: object = "main", then: tuple[Any, ...] = ()) -> str:
        lease = current_lease()
        assert lease is not None
        seen.append(lease.name)
        return f"{sync(*then)}" if then else "done"

    assert sync("a", then=("b",)) == "done"
    assert sync("a", then=("a",)) == "None"
    assert sync("a:x", "y", ("a", "x:y")) == "done"
    assert sync(repository="a b", branch=7) == "done"
    assert seen[-1] == "shop:sync:a b:7"
    assert len(set(seen)) == 5


def test_what_cannot_be_in_a_name_is_refused(leases: MemoryLeases) -> None:
    def sync(repository: object) -> None: ...

    with pytest.raises(KeyPartError, match=r"do you mean \{repository\}"):
        exclusive(leases, "sync:{repositry}")(sync)
    with pytest.raises(Misuse, match="write the name of a parameter"):
        exclusive(leases, "sync:{repository.name}")(sync)
    with pytest.raises(Misuse, match="is a dict"):
        exclusive(leases, "sync:{repository}")(sync)({})
    with pytest.raises(Misuse, match="not 7"):
        exclusive(leases, 7)(sync)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match=r"exclusive has no overlp \(do you mean overlap\?\)"):
        exclusive(leases, overlp="skip")  # type: ignore[call-arg]
    with pytest.raises(PolicyError):
        exclusive(leases, overlap="both")  # type: ignore[arg-type]
    with pytest.raises(Misuse, match=r"write @exclusive\(leases\)"):
        exclusive(sync)  # type: ignore[arg-type]
