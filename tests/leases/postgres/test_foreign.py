"""A statement of ours in the transaction of whatever library: what each is given, by stand-ins for them."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stampede_guard.errors import Misuse
from stampede_guard.jobs.backends.postgres.statements import JobStatements
from stampede_guard.leases.postgres.external import in_transaction

FINISH = JobStatements.of("stampede_guard").finish_in


class Told:
    """Remembers what it was asked, and answers with one row."""

    def __init__(self, *, autocommit: bool = False, begun: bool = True) -> None:
        self.asked: list[tuple[str, dict[str, object]]] = []
        self.autocommit = autocommit
        self.info = SimpleNamespace(transaction_status=2 if begun else 0)

    async def execute(self, sql: str, parameters: dict[str, object]) -> Any:
        self.asked.append((sql, parameters))

        async def fetchone() -> tuple[int]:
            return (1,)

        return SimpleNamespace(first=lambda: (1,), fetchone=fetchone)


def of(module: str) -> type[Told]:
    """A user's subclass, in a module of his own, of a class of this library."""
    library = type("AsyncConnection", (Told,), {"__module__": module})
    return type("Mine", (library,), {"__module__": "shop.database"})


async def test_to_sqlalchemy_every_parameter_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = ModuleType("sqlalchemy")
    library.text = lambda sql: sql
    monkeypatch.setitem(sys.modules, "sqlalchemy", library)
    conn = of("sqlalchemy.ext.asyncio.engine")()
    assert await in_transaction(conn, FINISH, *"abcdefg") == (1,)
    ((sql, parameters),) = conn.asked
    # What its `text` takes for parameters, by its documentation: a colon and a name with no other colon around.
    found = set(re.findall(r"(?<![:\w\\]):(\w+)(?!:)", sql))
    assert found == set(parameters) == {f"p{number}" for number in range(1, 8)}
    assert "$" not in sql


async def test_to_psycopg_parameters_have_names() -> None:
    conn = of("psycopg")()
    assert await in_transaction(conn, FINISH, *"abcdefg") == (1,)
    ((sql, parameters),) = conn.asked
    assert sql % dict.fromkeys(parameters, "x") and "$" not in sql


async def test_psycopg_in_autocommit_outside_of_a_transaction_is_refused() -> None:
    with pytest.raises(Misuse, match="transaction"):
        await in_transaction(of("psycopg")(autocommit=True, begun=False), FINISH, *"abcdefg")
