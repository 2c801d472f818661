"""The pytest plugin, in runs of pytest of its own: with pytest-asyncio and without, used and not used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

APP = """
import asyncio
import pytest
from stampede_guard import locked_cache

@locked_cache(ttl=300)
async def quality(project: int) -> int:
    await asyncio.sleep(0)
    return project

async def app(scope, receive, send):
    if scope["type"] == "http":
        body = str(await quality(7)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
"""

PLAIN = """
def test_endpoint(stampede_guard_memory, assert_single_flight, fake_clock):
    result = assert_single_flight(app, "/", computes=quality, callers=10, workers=3)
    assert result.computations == 1
    fake_clock.advance(301)
    assert assert_single_flight(quality, args=(7,)).computations == 1

def test_unprotected(stampede_guard_memory, assert_single_flight):
    quality.set_mode("off")
    with pytest.raises(AssertionError, match="was computed 10 times"):
        assert_single_flight(quality, args=(7,), callers=10, workers=2)
    quality.set_mode(None)

def test_faulty(faulty_store, fake_clock):
    assert faulty_store.clock is fake_clock
"""

ASYNC = """
async def test_endpoint(stampede_guard_memory, assert_single_flight):
    assert await quality(8) == 8
    result = await assert_single_flight(app, "/", computes=quality, callers=10, workers=3)
    assert result.computations == 1

async def test_each_test_has_a_guard_of_its_own(stampede_guard_memory, assert_single_flight):
    assert (await assert_single_flight(quality, args=(8,))).computations == 1
"""


def pytest_run(
    folder: Path, *options: str, autoload: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """With nothing but what is named: neither this repository's settings nor other plugins."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_"))}
    inherited |= {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", **environment}
    if not autoload:
        inherited["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    (folder / "pytest.ini").touch()
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=folder, env=inherited, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


SCOPE = "asyncio_default_fixture_loop_scope=function"
PLUGIN = ("-p", "stampede_guard.testing.plugin")


def test_plain_tests_need_no_other_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_app.py").write_text(APP + PLAIN)
    done = pytest_run(tmp_path, *PLUGIN, "-W", "error")
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_async_tests_await_it(tmp_path: Path) -> None:
    (tmp_path / "test_app.py").write_text(APP + ASYNC)
    options = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_mode=auto", "-o", SCOPE, "-W", "error")
    done = pytest_run(tmp_path, *PLUGIN, *options)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_the_guard_in_memory_caches_whatever_mode_the_suite_runs_in(tmp_path: Path) -> None:
    (tmp_path / "test_app.py").write_text(APP + PLAIN)
    done = pytest_run(tmp_path, *PLUGIN, STAMPEDE_GUARD_MODE="off")
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_default_guard_is_put_back(tmp_path: Path) -> None:
    text = """
    from stampede_guard import StampedeGuard, configure
    from stampede_guard.api import defaults

    mine = StampedeGuard.from_url("memory://")
    configure(mine)

    def test_one(stampede_guard_memory):
        assert defaults.default_guard() is stampede_guard_memory is not mine

    def test_two():
        assert defaults.default_guard() is mine
    """
    (tmp_path / "test_default.py").write_text(textwrap.dedent(text))
    done = pytest_run(tmp_path, *PLUGIN)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def entry_point(folder: Path) -> None:
    """What an installation leaves behind, made from what the project declares."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"][
        "pytest11"
    ]
    info = folder / "as_installed-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: as-installed\nVersion: 1\n")
    lines = [f"{name} = {target}" for name, target in declared.items()]
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))


OTHERS = (
    "locust", "valkey", "platformdirs", "asyncio", "anyio", "cov", "pytest_cov", "hypothesispytest", "faker",
    "schemathesis",
)  # fmt: skip


def test_an_installation_brings_the_plugin_and_loads_nothing_of_the_library(tmp_path: Path) -> None:
    entry_point(tmp_path)
    text = """
    import sys

    def test_loaded():
        ours = sorted(name for name in sys.modules if name.startswith("stampede_guard"))
        assert ours == ["stampede_guard", "stampede_guard.testing", "stampede_guard.testing.plugin"]
        assert not {"redis", "msgspec", "asyncio", "unittest.mock"} & set(sys.modules) - BEFORE

    def test_fixture(fake_clock):
        fake_clock.advance(1)
    """
    (tmp_path / "test_loaded.py").write_text(textwrap.dedent(text))
    # What pytest has loaded by itself is not the plugin's doing.
    (tmp_path / "conftest.py").write_text(
        "import sys, subprocess\n"
        "import test_loaded\n"
        "test_loaded.BEFORE = set(subprocess.run([sys.executable, '-c', 'import sys, pytest, _pytest.unittest; "
        "print(*sys.modules)'], capture_output=True, text=True).stdout.split())\n"
    )
    others = [word for name in OTHERS for word in ("-p", f"no:{name}")]
    done = pytest_run(tmp_path, *others, autoload=True)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("options", [(), PLUGIN], ids=["without", "with"])
def test_a_suite_that_does_not_use_it_runs_as_without_it(tmp_path: Path, options: tuple[str, ...]) -> None:
    text = """
    import pytest

    @pytest.fixture
    def fake_clock():
        return "the suite's own"

    def test_a_fixture_of_the_same_name_is_the_suites_own(fake_clock):
        assert fake_clock == "the suite's own"

    def test_nothing_happens_by_itself(request):
        assert request.fixturenames == ["request"]
    """
    (tmp_path / "test_other.py").write_text(textwrap.dedent(text))
    done = pytest_run(tmp_path, *options, "--strict-markers", "--strict-config", "-W", "error")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert done.stderr == ""


def test_the_tests_in_the_documentation_pass_as_they_are_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "calls.md").read_text("utf-8")
    module = re.findall(r'^```python title="test_shop.py"\n(.*?)^```', page, re.DOTALL | re.MULTILINE)
    (tmp_path / "test_page.py").write_text("\n\n".join(module))
    done = pytest_run(tmp_path, *PLUGIN, "-W", "error::RuntimeWarning")
    tests = sum(text.count("def test_") for text in module)
    assert tests >= 5
    assert f"{tests} passed" in done.stdout, done.stdout + done.stderr


def test_the_tests_of_the_example_pass_under_pytest(tmp_path: Path) -> None:
    name = "testing_your_endpoint.py"
    (tmp_path / f"test_{name}").write_text((ROOT / "examples" / name).read_text("utf-8"))
    done = pytest_run(tmp_path, *PLUGIN)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
