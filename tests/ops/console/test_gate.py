"""The door of `stampede-guard console`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from stampede_guard.ops.console.access import HEADERS
from stampede_guard.ops.console.gate import is_own_host
from tests.ops.cli.conftest import ROOT


@pytest.fixture
def address(valkey_url: str, namespace: str) -> Iterator[str]:
    """The address that the command prints."""
    command = [sys.executable, "-m", "stampede_guard", "console", "--port", "0", "--allow-action", "mode"]
    given = {"STAMPEDE_GUARD_URL": valkey_url, "STAMPEDE_GUARD_NAMESPACE": namespace}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **given},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        _, told = process.communicate(timeout=60)
        assert "token" not in told and "Traceback" not in told


def test_the_command_shows_pages_to_whoever_has_its_token(address: str, namespace: str) -> None:
    parts = urlsplit(address)
    assert parts.hostname == "127.0.0.1" and parts.query.startswith("token=")
    base = f"http://{parts.netloc}"
    with httpx.Client() as browser:
        refused = browser.get(base)
        assert refused.status_code == 403 and "token" in refused.text
        assert {name: refused.headers.get(name) for name in HEADERS} == HEADERS
        assert browser.get(f"{base}/api/overview?token=wrong").status_code == 403

        entered = browser.get(address)
        assert entered.status_code == 303 and entered.headers["location"] == "/"
        assert "HttpOnly" in entered.headers["set-cookie"]
        assert "SameSite=strict" in entered.headers["set-cookie"]
        page = browser.get(base)
        assert page.status_code == 200 and namespace in page.text and "server" not in page.headers

        rebound = browser.get(base, headers={"host": f"evil.test:{parts.port}"})
        assert rebound.status_code == 403

        token = browser.get(f"{base}/functions").text.split('name="token" value="')[1][:64]
        form = {"token": token, "function": "shop.quality", "to": "bypass"}
        assert browser.post(f"{base}/act/mode", data=form).status_code == 403
        done = browser.post(f"{base}/act/mode", data=form, headers={"origin": base})
        assert done.status_code == 200
        assert browser.get(f"{base}/api/functions").json()["switches"]["shop.quality"]["mode"] == "bypass"


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ("localhost", True), ("LOCALHOST:8799", True), ("127.0.0.1:8799", True), ("[::1]:8799", True),
        ("10.0.0.7:80", True), ("box.lan:8799", True), ("evil.test", False), ("evil.test:8799", False),
        ("127.0.0.1.evil.test", False), ("", False), ("[evil]", False),
    ],
)  # fmt: skip
def test_only_names_of_this_machine_are_accepted(given: str, own: bool) -> None:
    assert is_own_host(given, "box.lan") is own
