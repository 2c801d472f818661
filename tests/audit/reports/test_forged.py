"""A file's name or text cannot forge lines of a report, and a diff fits whatever the file contains."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from stampede_guard.audit.command import main
from stampede_guard.audit.finding import printable
from stampede_guard.audit.reports import FORMATS

CACHED = "from aiocache import cached\n\n\n@cached(ttl=60)\nasync def rates() -> int:\n    return 1\n"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
NAMES = [
    "x\n::add-mask::a\n.py",
    "x\r::stop-commands::a.py",
    "x\x1b[2Ja.py",
    "x\x9b2Ja.py",
    "x\u2028a.py",
    "x\u202ea.py",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


ALL = [".", "--no-config", "--no-cache", "--min-confidence", "low"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("format_", ["text", "concise", "github", "markdown"])
def test_a_name_stays_on_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, format_: str
) -> None:
    (folder / name).write_text(CACHED)
    (folder / f"broken{name}").write_text("def (")
    assert main([*ALL, "--output-format", format_]) == 1
    said = capsys.readouterr().out
    assert HARMFUL.search(said) is None
    if format_ != "github":
        assert not any(line.startswith("::") for line in said.splitlines())
    assert sum(line.startswith(("::add", "::stop")) for line in said.splitlines()) == 0
    assert "SG102" in said and "skipped" in said.lower()


def test_a_source_line_stays_on_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CACHED.replace("(ttl=60)", '(ttl=60, key="\x1b[2J\u2028::a\u202e")  # \x9b \x0c')
    (folder / "mod.py").write_text(text)
    main([*ALL, "--output-format", "text"])
    said = capsys.readouterr().out
    assert HARMFUL.search(said) is None
    assert r"\x1b[2J\u2028::a\u202e" in said


def test_what_is_told_of_a_refused_file_is_escaped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x\n::a.py").write_text("a = 1;" + CACHED + "locked_cache = 1\n" + "X = '" + "\x00'")
    (folder / "y\n::b.py").write_bytes(b"\xff" + CACHED.encode())
    main([*ALL, "--fix", "--unsafe-fixes"])
    main(["nothing\n::c", "--no-config"])
    said = capsys.readouterr()
    assert not any(line.startswith("::") for line in (said.out + said.err).splitlines())


def test_ordinary_text_stays() -> None:
    text = "app/modèle.py: 日本語 🙂 «x» \\n"
    assert printable(text) == text
    assert printable("\ud800") == "\\ud800"


def test_the_formats_for_programs_are_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        (folder / name).write_text(CACHED)
    for format_ in FORMATS:
        main([*ALL, "--output-format", format_])
        assert "SG102" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        CACHED + "\x0c\nX = 1\n",
        CACHED + "X = 'a\u2028b'\n",
        CACHED + "# a\x85b\n",
        CACHED + "# \x0b \x1c \x1d \x1e\n",
        CACHED.replace("from", "# \x0c a\nfrom"),
        CACHED.replace("from", "# a \u2029 b\rfrom", 1).replace("\r", "\r\n"),
        CACHED.replace("\n", "\r\n"),
        CACHED.rstrip("\n"),
        "\ufeff" + CACHED,
        "# -*- coding: latin-1 -*-\n# é\n" + CACHED,
    ],
)
@pytest.mark.parametrize("name", ["mod.py", 'a\n"b"\\.py', "é.py"])
def test_git_applies_the_diff(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes], text: str, name: str
) -> None:
    encoding = "latin-1" if "latin-1" in text else "utf-8"
    (folder / name).write_bytes(text.encode(encoding))
    subprocess.run(["git", "init", "-q", "."], check=True)
    assert main([*ALL, "--fix", "--diff"]) == 1
    diff = capfdbinary.readouterr().out
    assert subprocess.run(["git", "apply", "-"], input=diff, check=False).returncode == 0, diff
    by_git = (folder / name).read_bytes()
    (folder / name).write_bytes(text.encode(encoding))
    main([*ALL, "--fix"])
    assert by_git == (folder / name).read_bytes() and b"locked_cache" in by_git
