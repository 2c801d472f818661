"""Files in, findings out: what is walked, what is skipped and said so, what never raises."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from stampede_guard.audit import audit, audit_source, engine, workers
from stampede_guard.audit.engine import AuditOptions
from stampede_guard.audit.files.discovery import Discovery

FILL = b"""
def rates(cache, request):
    found = cache.get("rates")
    if found is None:
        found = api_client.load_rates()
        cache.set("rates", found)
    return found
"""


def lay(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def found(folder: Path, **options: bool) -> set[str]:
    return {str(Path(name).relative_to(folder)) for name in Discovery(**options).files([str(folder)])}


def test_tests_environments_and_ignored_files_are_left_out(tmp_path: Path) -> None:
    lay(
        tmp_path,
        {
            "app/main.py": b"",
            "app/test_main.py": b"",
            "tests/helper.py": b"",
            ".venv/lib/x.py": b"",
            "node_modules/y.py": b"",
            "build/made.py": b"",
            "build/kept.py": b"",
            "app/secret.py": b"",
            ".gitignore": b"/build/*\n!kept.py\n",
            "app/.gitignore": b"secret.py\n",
            "notes.txt": b"",
        },
    )
    assert found(tmp_path) == {"app/main.py", "build/kept.py"}
    assert {"tests/helper.py", "app/test_main.py"} <= found(tmp_path, include_tests=True)


def test_a_module_of_the_program_may_be_called_tests(tmp_path: Path) -> None:
    lay(
        tmp_path,
        {
            "health/tests.py": b"from django.core.cache import cache\n\ndef failures(push): ...\n",
            "shop/ab_test.py": b"def variant(user): ...\n",
            "app/tests.py": b"from django.test import TestCase\n",
            "app/one_test.py": b"def test_one():\n    pass\n",
            "app/test.py": b"",
            "app/conftest.py": b"x = 1\n",
        },
    )
    assert found(tmp_path) == {"health/tests.py", "shop/ab_test.py"}


def test_a_link_that_leads_back_is_reported_and_the_walk_ends(tmp_path: Path) -> None:
    lay(tmp_path, {"app/main.py": b""})
    (tmp_path / "app" / "again").symlink_to(tmp_path)
    discovery = Discovery()
    assert len(list(discovery.files([str(tmp_path)]))) == 1
    assert "leads back" in discovery.skipped[0].reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"def broken(:\n", "this Python cannot parse it"),
        (b"x = '\xff\xfe'\n", "encoding"),
        (b"x = 1\n\x00", "this Python cannot parse it"),
        (b"(" * 5_000 + b")" * 5_000, "this Python cannot parse it|nested"),
        (b"# -*- coding: no-such-code -*-\nx = '\xff'\n", "encoding"),
    ],
)
def test_what_cannot_be_read_is_skipped_with_the_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    import re

    (tmp_path / "bad.py").write_bytes(data)
    (tmp_path / "good.py").write_bytes(FILL)
    outcome = audit([str(tmp_path / "bad.py"), str(tmp_path / "good.py")])
    assert len(outcome.findings) == 1
    (skipped,) = outcome.skipped
    assert skipped.path.endswith("bad.py") and re.search(reason, skipped.reason)


def test_huge_and_generated_files_and_pipes_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "huge.py").write_bytes(b"x = 1\n" * 200_000)
    (tmp_path / "made.py").write_bytes(b"# @generated\n" + b"x = 1\n" * 20_000)
    os.mkfifo(tmp_path / "pipe.py")
    outcome = audit([str(tmp_path / name) for name in ("huge.py", "made.py", "pipe.py", "gone.py")])
    reasons = {Path(s.path).name: s.reason for s in outcome.skipped}
    assert reasons["huge.py"].startswith("larger") and reasons["made.py"] == "generated code"
    assert reasons["pipe.py"] == "not a regular file" and reasons["gone.py"].startswith("unreadable")


def test_several_processes_find_what_one_finds(tmp_path: Path) -> None:
    lay(tmp_path, {f"m{number}.py": FILL if number % 3 == 0 else b"x = 1\n" for number in range(400)})
    files = list(Discovery().files([str(tmp_path)]))
    assert audit(files, jobs=1).findings == audit(files, jobs=2).findings != []


def test_a_file_that_kills_its_process_is_named_and_the_others_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path, {f"m{number}.py": FILL if number % 3 == 0 else b"x = 1\n" for number in range(400)})
    lay(tmp_path, {"m7.py": b"deadly = 1\n", "m333.py": b"deadly = 2\n"})
    judged, own = engine._judge, os.getpid()

    def judge(outcome: engine.AuditResult, path: str, data: bytes, options: AuditOptions) -> None:
        if data.startswith(b"deadly") and os.getpid() != own:
            os._exit(1)
        judged(outcome, path, data, options)

    monkeypatch.setattr(engine, "_judge", judge)
    # A fresh process would know nothing of this `judge`, and is what is taken while another test's thread still ends.
    monkeypatch.setattr(workers, "_context", lambda: multiprocessing.get_context("fork"))
    outcome = audit(sorted(map(str, tmp_path.glob("*.py"))), jobs=2)
    assert [Path(skipped.path).name for skipped in outcome.skipped] == ["m333.py", "m7.py"]
    assert {skipped.reason for skipped in outcome.skipped} == {"the process that read it has died"}
    assert (outcome.files, len(outcome.findings)) == (400, 133)


def test_a_process_of_the_pool_ends_when_it_is_told_to_whatever_its_parent_does_then() -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("fork"), workers._begin) as pool:
            assert pool.submit(signal.getsignal, signal.SIGTERM).result() == signal.SIG_DFL
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_options_that_judged_here_can_judge_elsewhere(tmp_path: Path) -> None:
    options = AuditOptions(codes=frozenset(("SG201",)))
    audit_source("x.py", FILL, options)
    lay(tmp_path, {f"m{number}.py": FILL for number in range(320)})
    assert len(audit(map(str, tmp_path.glob("*.py")), options, jobs=2).findings) == 320


def test_the_audit_imports_neither_redis_nor_the_runtime() -> None:
    code = (
        "import sys; import stampede_guard.audit.command; "
        "bad = {'redis', 'msgspec', 'stampede_guard.api.guard', 'stampede_guard.stores'} & set(sys.modules); "
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_mangled_program_raises() -> None:
    chance = random.Random(7)
    files = sorted((Path(__file__).parent / "cases").glob("*/*/*.py"))
    for path in files:
        for _ in range(12):
            data = bytearray(path.read_bytes())
            for _ in range(chance.randint(1, 6)):
                where = chance.randrange(len(data))
                match chance.randint(0, 2):
                    case 0:
                        data[where] = chance.randrange(256)
                    case 1:
                        del data[where : where + chance.randint(1, 20)]
                    case _:
                        data[where:where] = bytes(data[where : where + 15])
                data = data or bytearray(b"x")
            outcome = audit_source("fuzz.py", bytes(data), AuditOptions(parse_all=True, least="low"))
            assert not [s for s in outcome.skipped if "a rule failed" in s.reason], bytes(data)
