"""eventlet is refused where a program would first notice: at the first call, at the start of an application."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.listener import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PATCHED = "import warnings; warnings.simplefilter('ignore'); import eventlet; eventlet.monkey_patch()\n"
FUNCTION = """
from stampede_guard import StampedeGuard
@StampedeGuard.from_url("memory://").locked_cache(ttl=60)
def double(number: int) -> int:
    return number * 2
"""
STARTS = {
    "a plain function": FUNCTION + "double(7)",
    "Flask": "from flask import Flask\nfrom stampede_guard.integrations.flask import Stampede\nStampede(Flask('x'))",
    "Celery": "import stampede_guard.integrations.celery",
}


def said(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("what", STARTS)
def test_under_eventlet_the_start_is_an_error_that_says_what_to_use(what: str) -> None:
    last = said(PATCHED + STARTS[what]).splitlines()[-1]
    assert "Misuse: eventlet" in last and "--worker-class gevent" in last and "--pool threads" in last


@pytest.mark.parametrize("what", STARTS)
def test_eventlet_that_has_not_patched_threads_is_no_matter(what: str) -> None:
    assert said(PATCHED.replace("monkey_patch()", "monkey_patch(thread=False)") + STARTS[what]) == ""
