"""A name that another file of the project may use stays, also if the run is told of one file only."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from stampede_guard.audit.command import main
from stampede_guard.audit.editor import documents
from stampede_guard.audit.files.project import with_project

COMMON = "from aiocache import cached\n\n\n@cached(ttl=60)\nasync def rates() -> int:\n    return 1\n"
LOCKS = """import asyncio

_locks: dict[str, asyncio.Lock] = {}


async def build(key: str) -> str:
    async with _locks.setdefault(key, asyncio.Lock()):
        return key
"""
FILL = """import redis

r = redis.Redis()


def sales(day: str) -> str:
    found = r.get(f"shop-sales:{day}")
    if found is not None:
        return found.decode()
    value = count(day)
    r.setex(f"shop-sales:{day}", 60, value)
    return value
"""
USES = [
    "from app.common import cached\n",
    "from app.common import *\n\n@cached(ttl=5)\nasync def more(): ...\n",
    "from .common import *\n",
    "from app.common import (\n    # all of it\n    cached as kept,\n)\n",
    "def f():\n    from app.common \\\n        import cached\n    return cached\n",
    "import app.common\n\n@app.common.cached(ttl=5)\nasync def more(): ...\n",
    "import app.common as c\n\nprint(c.cached)\n",
    "from app import common\n\n@common.cached(ttl=5)\nasync def more(): ...\n",
    "from . import common as c\n\nprint(c.cached)\n",
    "patched('app.common.cached')\n",
    "import importlib\n\nc = importlib.import_module('app.common')\nprint(c.cached)\n",
    "import importlib\n\nprint(getattr(importlib.import_module('.common', 'app'), 'cached'))\n",
    "from app.common import cached\nthis is no Python\n",
]
OTHERS = [
    "from aiocache import cached\n",
    "from app.common import rates\nfrom aiocache import cached\n",
    "from app.other.common2 import cached\n",
    "from aiocache import *\n",
    "# the common form: cached\n",
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app").mkdir()
    for name, text in {"__init__": "", "common": COMMON, "locks": LOCKS, "fill": FILL}.items():
        (tmp_path / "app" / f"{name}.py").write_text(text)
    return tmp_path


FIX = ["--no-config", "--no-cache", "--fix", "--unsafe-fixes", "--min-confidence", "low"]


@pytest.mark.parametrize("place", ["app/other.py", "tests/test_rates.py"])
@pytest.mark.parametrize("given", [".", "app/common.py", "-"])
@pytest.mark.parametrize(
    ("use", "stays"), [*((use, True) for use in USES), *((use, False) for use in OTHERS)]
)
def test_an_import_that_another_file_may_use_stays(
    project: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    place: str,
    use: str,
    stays: bool,
) -> None:
    (project / place).parent.mkdir(exist_ok=True)
    (project / place).write_text(use)
    if given == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(COMMON.encode())))
        main(["-", "--stdin-filename", "app/common.py", *FIX])
        after = capsysbinary.readouterr().out.decode()
    else:
        main([given, *FIX])
        after = (project / "app" / "common.py").read_text()
    assert "@locked_cache(" in after
    assert ("import cached" in after) == stays


@pytest.mark.parametrize("given", [".", "app/locks.py", "-", "editor"])
@pytest.mark.parametrize(
    "use",
    [
        "from app import locks\n\nlocks._locks['a'] = 1\n",
        "from app.locks import *\n\n_locks['a'] = 1\n",
        "from app.locks import _locks\n",
    ],
)
def test_a_dict_of_locks_that_another_file_may_use_stays(
    project: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    use: str,
) -> None:
    (project / "app" / "other.py").write_text(use)
    path = str(project / "app" / "locks.py")
    if given == "editor":
        found = [finding for finding in documents.findings(path, LOCKS) if finding.code == "SG304"]
        assert found and [fix for finding in found for fix in documents.fixes(path, LOCKS, finding)][1:] == []
        return
    if given == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LOCKS.encode())))
        main(["-", "--stdin-filename", "app/locks.py", *FIX])
        assert capsysbinary.readouterr().out.decode() == LOCKS
    else:
        main([given, *FIX])
        assert Path(path).read_text() == LOCKS


@pytest.mark.parametrize("given", ["app/fill.py", "-"])
def test_a_key_that_another_file_names_stays_though_one_file_is_named(
    project: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    (project / "app" / "other.py").write_text("r.delete(f'shop-sales:{day}')\n")
    if given == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FILL.encode())))
        main(["-", "--stdin-filename", "app/fill.py", *FIX])
        after = capsysbinary.readouterr().out.decode()
    else:
        main([given, *FIX])
        after = (project / "app" / "fill.py").read_text()
    assert "with fill_lock(" in after


@pytest.mark.parametrize("marker", [".git", "pyproject.toml", ""])
def test_the_project_of_a_file(tmp_path: Path, marker: str) -> None:
    for name in ("a/b/__init__.py", "a/b/c.py", "a/d.py", "e.py", "a/b/node_modules/f.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    if marker:
        (tmp_path / marker).mkdir()
    file = str(tmp_path / "a" / "b" / "c.py")
    found = {Path(path).relative_to(tmp_path).as_posix() for path in with_project([file], [file])}
    assert found == {"a/b/__init__.py", "a/b/c.py", "a/d.py", *(("e.py",) if marker else ())}


def test_a_text_that_was_never_saved_has_no_project(tmp_path: Path) -> None:
    assert with_project([], [str(tmp_path / "nowhere" / "mod.py")]) == []


def test_a_home_folder_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "other.py").write_text("")
    for file in (tmp_path / "mod.py", Path("/mod.py")):
        assert with_project([str(file)], [str(file)]) == [str(file)]
