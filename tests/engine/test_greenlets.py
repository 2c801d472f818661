"""Plain functions under gevent: threads are greenlets, and the event loop of plain functions is in one of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from stampede_guard.engine.threads.greenlets import new_event_loop
from stampede_guard.errors import Misuse

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("patched", ["early", "late"])
def test_greenlets_share_flights_and_never_stop_each_other(
    patched: str, valkey_url: str, namespace: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.greenlets", patched, valkey_url, namespace],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == ("done", 0), done.stdout + done.stderr
    assert not done.stderr


def test_threads_without_sockets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    partly = SimpleNamespace(is_object_patched=lambda module, name: module == "_thread")
    monkeypatch.setitem(sys.modules, "gevent.monkey", partly)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match=r"not the module select.*patch_all\(\)"):
        new_event_loop()
