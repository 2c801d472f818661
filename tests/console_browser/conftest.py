"""A fleet of eight workers, one of them killed, and an application with their console. It starts once: its leases wait
for the minute in which a new server grants none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.herd.valkey import ValkeyServer

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "shop"
WORKERS = 8


def begun(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *command], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture(scope="session")
def store() -> Iterator[str]:
    with ValkeyServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def site(store: str) -> Iterator[str]:
    """The address of the console. One worker of the fleet is killed while it works."""
    workers = [begun("tests.ops.cli.busy", store, NAMESPACE) for _ in range(WORKERS)]
    shop = begun("tests.console_browser.site", store, NAMESPACE)
    try:
        assert [said(worker) for worker in workers] == ["ready"] * WORKERS
        port = said(shop)
        workers[0].kill()
        yield f"http://127.0.0.1:{port}/ops/"
    finally:
        for process in (shop, *workers):
            process.kill()
            process.communicate()


@pytest.fixture
def herd(store: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Eight further processes that are ready to call one function at once."""
    processes = [begun("tests.console_browser.herd", store, NAMESPACE) for _ in range(WORKERS)]
    try:
        assert [said(process) for process in processes] == ["ready"] * WORKERS
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.fixture
def lone() -> Iterator[tuple[ValkeyServer, str]]:
    """A server that the test may stop, and the address of the command's console of it."""
    with ValkeyServer() as server:
        console = begun("stampede_guard", "console", "--url", server.url, "--port", "0")
        try:
            yield server, said(console)
        finally:
            console.kill()
            console.communicate()
