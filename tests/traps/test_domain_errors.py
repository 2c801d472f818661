"""Errors of an application's own classes: every caller's handlers see the same, in this process and in others."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.gate import soon
from tests.traps import domain_app
from tests.traps.domain_app import OTHERS, answers, application, errors, local_class

KINDS = [*errors(local_class()), *OTHERS]
REPOSITORY = Path(__file__).resolve().parents[2]
IMPORTED = "import asyncio, sys; from tests.traps.domain_app import main; asyncio.run(main(*sys.argv[1:]))"


def elsewhere(url: str, namespace: str, kinds: list[str], *, start: list[str]) -> Any:
    """What another process of the application answers to the same requests, and what it computed."""
    run = subprocess.run(
        [sys.executable, *start, url, namespace, *kinds],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    "start", [["-m", "tests.traps.domain_app"], ["-c", IMPORTED]], ids=["main", "module"]
)
async def test_first_callers_passengers_later_ones_and_other_processes_get_one_answer(
    valkey_url: str, namespace: str, start: list[str]
) -> None:
    app, guard, runs = application(valkey_url, namespace)
    async with guard:
        crowd = await soon(asyncio.gather(*[answers(app, KINDS) for _ in range(3)]))
        later = await answers(app, KINDS)
    first = crowd[0]
    assert sorted(runs) == sorted(KINDS)
    assert [one for one in crowd if one != first] == []
    assert later == first
    there, computed = await asyncio.to_thread(elsewhere, valkey_url, namespace, KINDS, start=start)
    assert computed == []
    rebuilt = [kind for kind in KINDS if kind not in OTHERS]
    assert {kind: there[kind] for kind in rebuilt} == {kind: first[kind] for kind in rebuilt}
    assert first["product"][0] == 422 and "ProductNotFound" in first["product"][1]
    # What cannot travel has its status there. Its type and text are not for clients.
    assert [there[kind][0] for kind in ("unportable", "unhandled")] == [410, 404]
    assert json.loads(there["unhandled"][1]) == {"detail": "Not Found"}
    assert not domain_app.computing
