"""`--fix` and the files: bytes, imports, modes, races, and what it says."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stampede_guard.audit import audit_source, fixing
from stampede_guard.audit.command import main
from stampede_guard.audit.engine import AuditOptions
from stampede_guard.audit.fixing import files
from stampede_guard.audit.fixing.files import Fixed, Unfixable, fixed, write

SAFE = """from fastapi import FastAPI
from fastapi_cache.decorator import cache

app = FastAPI()


@app.get("/rates")
@cache(expire=60)
async def rates(day: int) -> int:
    return await query(day)
"""


def one(path: str, data: bytes | str, *, unsafe: bool = False, others: list[str] | None = None) -> str:
    source = data.encode() if isinstance(data, str) else data
    findings = audit_source(path, source, AuditOptions(least="low")).findings
    assert findings, "the text must hold something to fix"
    wanted = {(finding.code, finding.function) for finding in findings}
    made = fixed(path, source, wanted, unsafe=unsafe, files=others or [])
    return made.after.decode(made.encoding)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(SAFE)
    return tmp_path


# --------------------------------------------------------------------------------------------------- the text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("ending", ["\n", ""])
def test_encoding_newlines_and_the_end_of_a_file_stay(newline: str, encoding: str, ending: str) -> None:
    declared = "# -*- coding: latin-1 -*-\n" if encoding == "latin-1" else ""
    text = declared + SAFE.replace('"/rates"', '"/größe"') + "X = 'é'"
    data = (text + ending).replace("\n", newline).encode(encoding)
    wanted = {("SG101", "rates")}
    made = fixed("app.py", data, wanted, unsafe=False)
    expected = (text + ending).replace(
        "fastapi_cache.decorator import cache", "stampede_guard import locked_cache"
    )
    expected = expected.replace("@cache(expire=60)", "@locked_cache(ttl=60)").replace("\n", newline)
    assert made.after == expected.encode(encoding)


NEW = "from stampede_guard import locked_cache\n"
HEADS = {
    "": NEW,
    '"""Doc."""\n': f'"""Doc."""\n\n{NEW}',
    "# a comment\n": f"# a comment\n{NEW}",
    "from __future__ import annotations\n": f"from __future__ import annotations\n\n{NEW}",
    "import os\nimport sys\n": f"import os\nimport sys\n\n{NEW}",
    "import os\n\nimport zope\n": f"import os\n\nimport zope\n{NEW}",
    "import os\n\nfrom zope import a\n": f"import os\n\n{NEW}from zope import a\n",
    "from stampede_guard import Policy, single\n": "from stampede_guard import Policy, locked_cache, single\n",
    "from stampede_guard import Policy\n": "from stampede_guard import Policy, locked_cache\n",
    "from stampede_guard import (\n    Policy,\n    single,\n)\n": (
        "from stampede_guard import (\n    Policy,\n    locked_cache,\n    single,\n)\n"
    ),
    "from stampede_guard import (\n    Policy,\n)\n": (
        "from stampede_guard import (\n    Policy,\n    locked_cache,\n)\n"
    ),
    NEW: NEW,
}


@pytest.mark.parametrize("head", HEADS, ids=repr)
def test_the_import_is_added_once_and_where_it_belongs(head: str) -> None:
    # The old decorator's own import stands below, so that the head has nothing but what is asked about.
    memo = "@functools.lru_cache\nasync def limits() -> int:\n    return await query()\n"
    apart = "\n" if "import" in head or '"' in head else ""
    made = one("app.py", f"{head}{apart}if True:\n    import functools\n\n\n{memo}", unsafe=True)
    assert made.startswith(HEADS[head]) and made.count("locked_cache") == 2


MODULES = {
    "": "import asyncio\n\n",
    '"""Doc."""\n': '"""Doc."""\n\nimport asyncio\n\n',
    "# a comment\n": "# a comment\nimport asyncio\n\n",
    "from __future__ import annotations\n": "from __future__ import annotations\n\nimport asyncio\n\n",
    "import os\nimport sys\n": "import asyncio\nimport os\nimport sys\n",
    "import abc\nimport sys\n": "import abc\nimport asyncio\nimport sys\n",
    "import abc\nfrom enum import Enum\n": "import abc\nimport asyncio\nfrom enum import Enum\n",
    "from __future__ import annotations\n\nfrom enum import Enum\n": (
        "from __future__ import annotations\n\nimport asyncio\nfrom enum import Enum\n"
    ),
    "import zope\n": "import asyncio\n\nimport zope\n",
    "# a comment\nfrom .zope import a\n": "# a comment\nimport asyncio\n\nfrom .zope import a\n",
    "import asyncio\n": "import asyncio\n",
    "import sys, asyncio\n": "import sys, asyncio\n",
}
PAUSE = "if True:\n    import time\n\n\nasync def poll() -> None:\n    time.sleep(1)\n"


@pytest.mark.parametrize("head", MODULES, ids=repr)
def test_a_module_is_imported_once_and_where_it_belongs(head: str) -> None:
    made = one("app.py", head + PAUSE, unsafe=True)
    assert made.startswith(MODULES[head]) and made.count("import asyncio") + made.count(", asyncio") == 1
    assert "    await asyncio.sleep(1)\n" in made


@pytest.mark.parametrize(
    "other",
    [
        "import asyncio as aio\nfrom shop import asyncio\n",
        "def asyncio() -> None: ...\n",
        "asyncio = 1\n",
        "def loop(asyncio: object) -> None: ...\n",
        "def loop() -> None:\n    asyncio = 1\n",
    ],
)
def test_where_a_modules_name_is_somebody_elses_nothing_is_done(other: str) -> None:
    assert one("app.py", other + PAUSE, unsafe=True) == other + PAUSE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from fastapi_cache.decorator import cache\n", ""),
        ("from fastapi_cache.decorator import cache  # noqa: F401\n", None),
        ("from fastapi_cache.decorator import cache\n\n__all__ = ['cache']\n", None),
        ("from fastapi_cache.decorator import cache\n\nother = cache\n", None),
    ],
)
def test_an_import_goes_only_when_nothing_uses_it(before: str, after: str | None) -> None:
    line = "from fastapi_cache.decorator import cache\n"
    made = one("app.py", SAFE.replace(line, before))
    assert (before.splitlines()[0] in made) == (after is None)


def test_an_import_that_another_file_takes_from_this_one_stays(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    for text, kept in (
        ("from shop.app import (\n    cache,\n)\n", True),
        ("from app import x, cache\n", True),
        ("from elsewhere import cache\n", False),
    ):
        other.write_text(text)
        assert ("import cache" in one("app.py", SAFE, others=[str(other)])) is kept
    assert "import cache" in one("shop/__init__.py", SAFE)


@pytest.mark.parametrize(
    "source",
    [
        SAFE.replace("query(day)", "locked_cache(day)").replace(
            "app =", "def locked_cache(x): ...\n\n\napp ="
        ),
        SAFE.replace("app = FastAPI()", "app = FastAPI()\nlocked_cache = 1"),
    ],
)
def test_a_name_that_means_something_else_is_not_taken(source: str) -> None:
    assert one("app.py", source, unsafe=True) == source


@pytest.mark.parametrize(
    ("told", "ttl"),
    [
        ("expire=60", "60"),
        ("300", "300"),
        ("expire=60 * 5", "60 * 5"),
        ("expire=DAY", "DAY"),
        ("expire=timedelta(minutes=2, seconds=1)", "121"),
        ("expire=timedelta(hours=HOURS)", "timedelta(hours=HOURS).total_seconds()"),
        ("expire=timedelta(1)", "86400"),
        ("expire=0.5", "0.5"),
        ("expire=settings.ttl", None),
        ("expire=None", None),
        ("", None),
        ("expire=60, key_builder=build", None),
        ("60, coder=PickleCoder", None),
    ],
)
def test_a_lifetime_is_taken_over_where_it_is_known(told: str, ttl: str | None) -> None:
    head = "from datetime import timedelta\n\nDAY = 86_400\nHOURS = 2\n"
    made = one("app.py", head + SAFE.replace("expire=60", told))
    assert f"@locked_cache(ttl={ttl})" in made if ttl else f"@cache({told})" in made


@pytest.mark.parametrize(
    ("signature", "safe"),
    [
        ("day: int) -> int", True),
        ("day: 'int | None' = None) -> 'list[str]'", True),
        ("day) -> int", True),  # a query parameter: text
        ("pages: Annotated[list[int], Query()]) -> dict[str, list[float]]", True),
        ("unit: Unit) -> Money", False),  # an imported class that is not seen to be built
        ("day: int) -> dict", False),
        ("day: int) -> dict[str, Any]", False),
        ("day: int)", False),
        ("db: AsyncSession = Depends(get_db)) -> int", False),
        ("*days: int) -> int", False),
    ],
)
def test_a_fix_is_safe_only_for_what_is_declared(signature: str, safe: bool) -> None:
    head = "from typing import Annotated, Any\nfrom enum import Enum\nfrom shop.models import Money, User\n"
    head += "\nclass Unit(Enum):\n    EUR = 1\n\n"
    source = head + SAFE.replace("day: int) -> int", signature)
    (finding,) = audit_source("app.py", source.encode(), AuditOptions(codes=frozenset({"SG101"}))).findings
    assert (finding.fix, finding.fixable) == (("safe", True) if safe else ("unsafe", False))
    assert ("@locked_cache" in one("app.py", source)) is safe
    assert "@locked_cache" in one("app.py", source, unsafe=True)


# --------------------------------------------------------------------------------------------------- the files


def test_a_file_is_replaced_in_one_step_and_keeps_mode_and_link(project: Path) -> None:
    path = project / "app.py"
    path.chmod(0o751)
    link = project / "link.py"
    link.symlink_to(path)
    inode = path.stat().st_ino
    assert main(["link.py", "--fix"]) == 0
    assert "locked_cache" in path.read_text() and link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o751 and path.stat().st_ino != inode
    assert sorted(os.listdir(project)) == ["app.py", "link.py"]


def test_a_file_that_changed_meanwhile_is_left_alone(project: Path) -> None:
    path = project / "app.py"
    before = path.read_bytes()
    path.write_text("x = 1\n")
    with pytest.raises(Unfixable, match="changed during"):
        write(Fixed("app.py", before, b"y = 1\n"))
    assert path.read_text() == "x = 1\n" and os.listdir(project) == ["app.py"]


def test_a_file_that_cannot_be_replaced_is_left_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.os, "replace", refuse)
    assert main(["app.py", "--fix"]) == 1
    assert "app.py stays as it is: it cannot be written: Permission denied" in capsys.readouterr().err
    assert (project / "app.py").read_text() == SAFE and os.listdir(project) == ["app.py"]


def test_a_file_that_does_not_parse_is_skipped_and_others_are_fixed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "broken.py").write_text(SAFE + "def (:\n")
    assert main([".", "--fix"]) == 1
    said = capsys.readouterr()
    assert (
        "broken.py: skipped: this Python cannot parse it" in said.out
        and "1 finding fixed in 1 file (SG101: 1)" in said.err
    )
    assert (project / "broken.py").read_text() == SAFE + "def (:\n"


# -------------------------------------------------------------------------------------------------- the command


def test_a_diff_shows_and_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([".", "--fix", "--diff"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("--- a/app.py\n+++ b/app.py\n@@") and "+@locked_cache(ttl=60)\n" in said.out
    assert "1 finding would be fixed in 1 file (SG101: 1)" in said.err
    assert (project / "app.py").read_text() == SAFE
    assert main([".", "--fix"]) == 0
    assert main([".", "--diff"]) == 0


def test_the_report_says_what_can_be_fixed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "more.py").write_text(SAFE.replace("day: int", "day: object"))
    main(["."])
    assert (
        "2 findings in 2 of 2 files, 1 fixable with --fix, 1 more with --fix --unsafe-fixes"
        in capsys.readouterr().out
    )
    main([".", "--output-format", "json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(f["fixable"], f["fix"]) for f in found] == [(True, "safe"), (False, "unsafe")]


def test_only_what_is_asked_for_is_fixed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / "app.py"
    for arguments in (["--select", "SG2"], ["--ignore", "SG101"], ["--exclude", "app.py"]):
        assert main([".", "--fix", *arguments]) == 0
        assert path.read_text() == SAFE
    assert main([".", "--write-baseline", "known.json"]) == 0
    assert main([".", "--fix", "--baseline", "known.json"]) == 0
    assert path.read_text() == SAFE
    path.write_text(SAFE.replace("@cache(expire=60)", "@cache(expire=60)  # noqa: SG101 later"))
    assert main([".", "--fix"]) == 0
    assert "locked_cache" not in path.read_text()


def test_standard_input_is_fixed_to_standard_output(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    def piped(text: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = main(["-", "--stdin-filename", "app.py", *arguments])
        return code, capsysbinary.readouterr().out.decode()

    code, said = piped(SAFE, "--fix")
    assert code == 0 and said == one("app.py", SAFE)
    assert piped("def (:\n", "--fix") == (1, "def (:\n")
    code, said = piped(SAFE, "--fix", "--diff")
    assert code == 1 and said.startswith("--- a/app.py\n")


def test_without_libcst_it_says_what_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finder: Callable[[str], object] = fixing.find_spec
    monkeypatch.setattr(fixing, "find_spec", lambda name: None if name == "libcst" else finder(name))
    assert main([".", "--fix"]) == 2
    assert "pip install '.[audit]'" in capsys.readouterr().err
    assert (project / "app.py").read_text() == SAFE
    assert main(["."]) == 1


def test_the_audit_alone_never_imports_libcst(project: Path) -> None:
    code = "import sys; from stampede_guard.audit.command import main; main(['.']); print('libcst' in sys.modules)"
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
        check=True,
    )
    assert done.stdout.endswith("\nFalse\n")


def test_a_fix_that_does_not_help_is_told_and_not_made(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "apply", lambda source, plans, *, keeps: source + "x = 1\n")
    assert main(["app.py", "--fix"]) == 1
    assert "app.py stays as it is: SG101 in rates: the finding would remain" in capsys.readouterr().err
    assert (project / "app.py").read_text() == SAFE


def test_a_fix_names_the_page_for_what_it_leaves_to_be_done_by_hand(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pages.py").write_text(
        "from flask_caching import Cache\ncache = Cache()\n\n\n@cache.memoize()\ndef f(): ...\n"
    )
    for options in (["--fix", "--diff"], ["--fix"]):
        main([".", *options])
        said = capsys.readouterr().err.splitlines()
        assert said[1:] == [
            "audit: to do by hand for SG101 (invalidation, keys, options): docs/migrating.md#from-fastapi-cache2",
            "audit: to do by hand for SG104 (invalidation, keys, options): docs/flask.md#from-flask-caching",
        ]
    main(["pages.py"])
    assert capsys.readouterr().err == ""


def test_a_dict_of_locks_that_another_file_uses_stays(tmp_path: Path) -> None:
    locks = b"""import asyncio

locks = {}


async def report(key):
    async with locks.setdefault(key, asyncio.Lock()):
        return await compute(key)
"""
    (tmp_path / "guards.py").write_bytes(locks)
    other = tmp_path / "other.py"
    for said, refused in (("from guards import locks\n", 1), ("import guards\nguards.locks\n", 1), ("", 0)):
        other.write_text(said, "utf-8")
        path = str(tmp_path / "guards.py")
        wanted = {(f.code, f.function) for f in audit_source(path, locks, AuditOptions(least="low")).findings}
        made = fixed(path, locks, wanted, unsafe=True, files=[path, str(other)])
        assert [reason for *_key, reason in made.refused] == ["another file uses locks"] * refused
        assert (made.after == locks) == bool(refused)
