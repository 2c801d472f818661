"""What people expect of a linter, one by one, each on a project laid out for the test."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from stampede_guard.audit.command import main
from stampede_guard.audit.files.discovery import Discovery
from stampede_guard.audit.files.linear import LinearPattern
from tests.audit.test_engine import FILL, lay

ROOT = Path(__file__).resolve().parent.parent.parent
KEYS = b'def names(redis, request):\n    return redis.keys("user:*")\n'
Report = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lay(
        tmp_path,
        {"app/main.py": FILL, "app/keys.py": KEYS, "pyproject.toml": b"[tool.stampede-guard.audit]\n"},
    )
    return tmp_path


@pytest.fixture
def report(project: Path, capsys: pytest.CaptureFixture[str]) -> Report:
    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = main([*(arguments or (".",)), "--output-format", "json"])
        return code, json.loads(capsys.readouterr().out or "{}")

    return run


def codes(said: dict[str, Any]) -> list[str]:
    return sorted(finding["code"] for finding in said["findings"])


# ------------------------------------------------------------------------------------------------- selection


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ((), ["SG201", "SG403"]),
        (("--select", "SG2"), ["SG201"]),
        (("--select", "SG201,redis-keys"), ["SG201", "SG403"]),
        (("--ignore", "SG201"), ["SG403"]),
        (("--ignore", "SG2", "--ignore", "redis-keys"), []),
        (("--select", "ALL", "--ignore", "SG4"), ["SG201"]),
    ],
)
def test_codes_are_chosen_on_the_command_line(
    report: Report, arguments: tuple[str, ...], wanted: list[str]
) -> None:
    code, said = report(".", *arguments)
    assert (code, codes(said)) == (1 if wanted else 0, wanted)


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ('select = ["SG4"]', ["SG403"]),
        ('ignore = ["SG4"]', ["SG201"]),
        ('exclude = ["app/keys.py"]', ["SG201"]),
        ('per-file-ignores = { "app/k*.py" = ["SG403"], "other/*" = ["SG2"] }', ["SG201"]),
        ('min-confidence = "high"', ["SG201", "SG403"]),
        ("include-tests = true", ["SG201", "SG201", "SG403"]),
    ],
)
def test_the_project_chooses_in_its_pyproject(
    project: Path, report: Report, setting: str, wanted: list[str]
) -> None:
    lay(project, {"pyproject.toml": f"[tool.stampede-guard.audit]\n{setting}\n".encode()})
    lay(project, {"tests/test_it.py": FILL})
    assert codes(report()[1]) == wanted


def test_the_command_line_replaces_what_the_project_chose(project: Path, report: Report) -> None:
    lay(project, {"pyproject.toml": b'[tool.stampede-guard.audit]\nselect = ["SG4"]\n'})
    assert codes(report(".", "--select", "SG2")[1]) == ["SG201"]
    assert codes(report(".", "--no-config")[1]) == ["SG201", "SG403"]


def test_a_pyproject_above_counts_up_to_the_repository(
    project: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(project, {"pyproject.toml": b'[tool.stampede-guard.audit]\nignore = ["SG4"]\n'})
    monkeypatch.chdir(project / "app")
    assert codes(report()[1]) == ["SG201"]


# ---------------------------------------------------------------------------------------------- suppressions


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: SG201 one caller exists",
        "# noqa: SG201",
        "# noqa:SG201,E501",
        "# type: ignore  # noqa: sg201 x",
        "# noqa",
    ],
)
def test_a_comment_silences_its_line(project: Path, report: Report, comment: str) -> None:
    lay(project, {"app/main.py": FILL.replace(b'get("rates")', b'get("rates")  ' + comment.encode())})
    code, said = report("app/main.py")
    assert (code, said["findings"], said["summary"]["suppressed"]) == (0, [], 1)


@pytest.mark.parametrize(
    "comment", ["# noqa: SG301", "# noqa: E501", "# noqa: because", 'text = "# noqa: SG201"']
)
def test_a_comment_about_something_else_silences_nothing(project: Path, report: Report, comment: str) -> None:
    lay(project, {"app/main.py": FILL.replace(b'get("rates")', b'get("rates")\n    ' + comment.encode())})
    assert "SG201" in codes(report("app/main.py")[1])


def test_a_comment_that_silences_nothing_is_reported_where_its_rule_is_judged(
    project: Path, report: Report
) -> None:
    lay(project, {"app/main.py": b"x = 1  # noqa: SG201\n", "app/keys.py": b""})
    code, said = report()
    assert (code, codes(said), said["findings"][0]["line"]) == (1, ["SG000"], 1)
    assert report(".", "--select", "SG3")[0] == 0
    assert report(".", "--ignore", "SG000")[0] == 0


def test_a_comment_for_what_is_too_unsure_to_be_shown_is_no_useless_one(
    project: Path, report: Report
) -> None:
    source = (
        b"from cashews import cache\n\n@cache(ttl=60)  # noqa: SG103 one process\nasync def rates(): ...\n"
    )
    lay(project, {"app/main.py": source, "app/keys.py": b""})
    assert report()[1]["findings"] == []
    assert report(".", "--min-confidence", "low")[1]["findings"] == []


def test_suppressions_are_written_where_a_comment_may_stand(project: Path, report: Report) -> None:
    lay(
        project,
        {
            "app/main.py": FILL.replace(b'get("rates")', b'get("""\n  rates""")').replace(
                b'"rates", f', b'"\\n  rates", f'
            ),
            "app/keys.py": b'# coding: latin-1\r\nx = "\xe4\x85"\r\n'
            b'def f(redis):\r\n    redis.keys("*")  # noqa: E501 why\r\n',
        },
    )
    assert report()[0] == 1
    assert main([".", "--add-noqa"]) == 0
    assert report() == (
        0,
        {"findings": [], "skipped": [], "summary": {"files": 2, "suppressed": 2, "codes": {}}},
    )
    assert b'rates""")  # noqa: SG201\n' in (project / "app" / "main.py").read_bytes()
    assert b'"*")  # noqa: E501, SG403 why\r\n' in (project / "app" / "keys.py").read_bytes()


# -------------------------------------------------------------------------------------------------- baseline


def test_with_a_baseline_only_what_is_new_fails(project: Path, report: Report) -> None:
    assert main([".", "--write-baseline", "known.json"]) == 0
    assert report(".", "--baseline", "known.json")[0] == 0
    lay(project, {"app/main.py": b"\n\n" + FILL + FILL.replace(b"rates", b"prices")})
    code, said = report(".", "--baseline", "known.json")
    assert (code, [finding["function"] for finding in said["findings"]]) == (1, ["prices"])
    lay(project, {"pyproject.toml": b'[tool.stampede-guard.audit]\nbaseline = "known.json"\n'})
    assert len(report()[1]["findings"]) == 1


def test_a_second_finding_in_a_known_function_is_new(project: Path, report: Report) -> None:
    assert main([".", "--write-baseline", "known.json"]) == 0
    lay(project, {"app/keys.py": KEYS.replace(b"return", b'redis.keys("x*")\n    return')})
    assert codes(report(".", "--baseline", "known.json")[1]) == ["SG403"]


def test_what_is_no_baseline_is_misuse(project: Path, report: Report) -> None:
    lay(project, {"known.json": b"[]"})
    assert report(".", "--baseline", "known.json")[0] == 2


def test_a_baseline_that_is_not_there_is_named_with_what_writes_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([".", "--baseline", "absent.json"]) == 2
    said = capsys.readouterr().err
    assert "absent.json" in said and "--write-baseline" in said and "Errno" not in said


# ------------------------------------------------------------------------------------------------ exit codes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((".",), 1),
        ((".", "--exit-zero"), 0),
        ((".", "--select", "SG3"), 0),
        (("absent.py",), 2),
        ((".", "--select", "SG9"), 2),
        ((".", "--no-such-option"), 2),
        ((".", "--jobs", "0"), 2),
        ((".", "--config", "absent.toml"), 2),
        ((".", "--changed-since", "HEAD"), 2),  # no repository
        (("--help",), 0),
    ],
)
def test_exit_codes_are_clean_found_misused(
    report: Report, project: Path, arguments: tuple[str, ...], code: int
) -> None:
    assert main(list(arguments)) == code


def test_a_syntax_error_fails_a_run(project: Path, report: Report) -> None:
    lay(project, {"app/main.py": b"def (:\n", "app/keys.py": b""})
    assert report()[0] == 1
    assert report(".", "--exit-zero")[0] == 0


def test_skipped_files_fail_a_strict_run_alone(project: Path, report: Report) -> None:
    lay(project, {"app/main.py": b"x = '\xff'\n", "app/keys.py": b""})
    assert report()[0] == 0
    assert report(".", "--strict")[0] == 2
    assert report(".", "--strict", "--exit-zero")[0] == 2


# ----------------------------------------------------------------------------------------------------- lines


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, encoding="utf-8"
    )
    return done.stdout


def test_only_changed_lines_count_whatever_the_file_and_the_diff_look_like(
    project: Path, report: Report
) -> None:
    lay(project, {"app/größe und rest.py": FILL, "app/gone.py": FILL, "app/moved.py": FILL})
    git(project, "init", "-q")
    git(project, "config", "diff.mnemonicPrefix", "true")
    git(project, "config", "diff.noprefix", "true")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    assert report(".", "--changed-since", "HEAD")[0] == 0
    lay(project, {"app/größe und rest.py": b"# a comment\n" + FILL + FILL.replace(b"rates", b"prices")})
    lay(project, {"app/new.py": KEYS})
    (project / "app" / "gone.py").unlink()
    git(project, "mv", "app/moved.py", "app/here.py")
    code, said = report(".", "--changed-since", "HEAD")
    assert code == 1
    assert sorted((f["path"], f["function"]) for f in said["findings"]) == [
        ("app/größe und rest.py", "prices"),
        ("app/new.py", "names"),
    ]


def test_changed_lines_are_found_from_a_folder_below_and_for_an_older_revision(
    project: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    lay(project, {"app/later.py": KEYS})
    git(project, "add", ".")
    git(project, "commit", "-qm", "second")
    monkeypatch.chdir(project / "app")
    assert report(".", "--changed-since", "HEAD")[0] == 0
    assert [f["path"] for f in report(".", "--changed-since", "HEAD~1")[1]["findings"]] == ["later.py"]


# ---------------------------------------------------------------------------------------------------- stdin


def test_an_editor_hands_over_its_text(
    project: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(
        project,
        {"pyproject.toml": b'[tool.stampede-guard.audit]\nper-file-ignores = { "gen/*" = ["SG2"] }\n'},
    )
    for name, count in (("app/open.py", 1), ("gen/open.py", 0)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FILL)))
        code, said = report("-", "--stdin-filename", name)
        assert (code, [finding["path"] for finding in said["findings"]]) == (count, [name] * count)


def test_a_broken_text_of_an_editor_is_skipped_with_the_line(
    project: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x = 1\ndef (:\n")))
    code, said = report("-", "--stdin-filename", "open.py")
    assert code == 1 and said["skipped"][0]["reason"].endswith("(line 2)")


# ------------------------------------------------------------------------------------------------ gitignore


def test_ignored_files_are_those_that_git_ignores(project: Path) -> None:
    names = "a.py b.py #x.py !y.py deep/a.py deep/er/b.py build/a.py build/keep.py lib/out/z.py lib/in/z.py"
    more = "doc/gen/a.py doc/b.py x1.py x12.py skip/me.py local.py"
    lay(project, dict.fromkeys((*names.split(), *more.split(), "c d.py"), b""))
    lay(
        project,
        {
            ".gitignore": b"# no pattern: a.py\n/a.py\nb.py\n\\#x.py\n\\!y.py\nc\\ d.py\n/build/*\n!keep.py\n"
            b"lib/**/z.py\n!lib/in/z.py\ndoc/gen/\nx?.py\n**/me.py   \n[l]ocal.py\n",
            "deep/.gitignore": b"!b.py\n/er/none.py\n",
        },
    )
    git(project, "init", "-q")
    (project / ".git" / "info" / "exclude").write_text("app\n")
    seen = set(git(project, "ls-files", "--others", "--exclude-standard", "-z").split("\0"))
    ours = {os.path.relpath(path, project) for path in Discovery().files([str(project)])}
    assert ours == {name for name in seen if name.endswith(".py")} and len(ours) == 5


@pytest.mark.parametrize(
    "ignored",
    [
        b"*.py",
        b"/b.py",
        b"a/**/c.py",
        b"a/*/c.py",
        b"x[0-9].py",
        b"x",
        b"x/",
        b"a/x/**",
        b"a/**/",
        # Only some files are admitted, and so every folder has to be.
        b"*\n!*/\n!c.py",
        b"*.py\n!a/\n!x/y/",
        b"*.py\n!a/**\n",
        # A file cannot come back while a folder above it is ignored.
        b"/a/x\n!c.py\n!a/x/c.py",
        # Line ends of Windows, with a mark of the byte order.
        b"\xef\xbb\xbfb.py\r\nx7.py\r\n",
        # Not understood, and so without effect.
        b"!\n[z-a]\n[\n/\nb.py",
    ],
)
def test_a_pattern_matches_the_files_that_git_matches(tmp_path: Path, ignored: bytes) -> None:
    names = "b.py c.py x7.py x/c.py x/y/c.py a/b.py a/c.py a/x/c.py a/x/y/c.py a/x7.py a/x/y/z/b.py"
    lay(tmp_path, {**dict.fromkeys(names.split(), b""), ".gitignore": ignored})
    git(tmp_path, "init", "-q")
    seen = set(git(tmp_path, "ls-files", "--others", "--exclude-standard", "-z").split("\0"))
    ours = {os.path.relpath(path, tmp_path) for path in Discovery().files([str(tmp_path)])}
    assert ours == {name for name in seen if name.endswith(".py")} != set(names.split())


PARTS = ["a", "b", "*", "*", "?", "/", "/**/", "**", "[ab]", "\\*", "!", "a*"]


def test_a_pattern_of_many_stars_matches_what_pathspec_would_match() -> None:
    chance, compared, matched = random.Random(5), 0, 0
    for _ in range(5000):
        line = re.sub("//+", "/", "".join(chance.choice(PARTS) for _ in range(chance.randint(1, 9))))
        try:
            theirs, ours = GitIgnoreSpecPattern(line), LinearPattern(line)
        except ValueError:
            continue
        if theirs.regex is None or ours.regex is None:
            assert theirs.regex is ours.regex is None
            continue
        for _ in range(8):
            letters = "".join(chance.choice("aabb/") for _ in range(chance.randint(1, 12)))
            name = re.sub("//+", "/", letters).lstrip("/")
            known, found = theirs.regex.match(name), ours.regex.match(name)
            assert (known is None) == (found is None), (line, name)
            compared, matched = compared + 1, matched + (known is not None)
    assert compared > 20_000 and compared > matched > 2_000


HOSTILE: dict[str, tuple[bytes, str]] = {
    "stars in a name": (b"*a" * 60 + b"b", "a" * 200),
    "stars in names": ((b"*a" * 30 + b"b/") * 3 + b"c", ("a" * 60 + "b/") * 3),
    "folders": (b"**/a/" * 40 + b"b", "a/" * 80),
    "both": (b"**/*a*a*a*a*b/" * 15 + b"c", ("a" * 50 + "b/") * 20),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_pattern_of_many_stars_does_not_try_all_ways_to_match(tmp_path: Path, what: str) -> None:
    ignored, path = HOSTILE[what]
    lay(tmp_path, {".gitignore": ignored + b"\nseen.py\n", f"{path.strip('/')}/kept.py": b"", "seen.py": b""})
    command = [sys.executable, "-m", "stampede_guard.audit", ".", "--output-format", "json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # Each of these patterns would take longer than this computer exists.
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=True
    )
    assert json.loads(done.stdout)["summary"]["files"] == 1


# ------------------------------------------------------------------------------------------------- robustness


def test_two_runs_say_the_same(project: Path) -> None:
    cases = str(ROOT / "tests" / "audit" / "cases")
    said = set()
    for seed in "12":  # sets of names are walked in another order
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        command = [
            sys.executable,
            "-m",
            "stampede_guard.audit",
            cases,
            "--include-tests",
            "--output-format",
            "json",
        ]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False)
        assert done.returncode == 1
        said.add(done.stdout)
    assert len(said) == 1


def test_everything_that_cannot_be_judged_is_named_with_its_reason(project: Path, report: Report) -> None:
    lay(
        project,
        {
            "app/newer.py": b"x = 1\nmatch x:\n    case 1 if (y := 2): pass\ntype X = int\ndef f[T](a: T) -> T: ...\n",
            "app/future.py": b"x = 1\nunless x: pass\n",
            "app/encoding.py": b"x = '\xff'\n",
            "app/huge.py": b"# long\n" * 200_000,
            "app/generated.py": b"# @generated by a tool\n" + b"x = 1\n" * 30_000,
            "app/deep.py": b"x = " + b"(" * 3_000 + b")" * 3_000,
            "app/minus.py": b"x = " + b"-" * 100_000 + b"1",
        },
    )
    (project / "app" / "dangling.py").symlink_to(project / "nowhere.py")
    (project / "app" / "round").symlink_to(project / "app")
    os.mkfifo(project / "app" / "pipe.py")
    code, said = report()
    reasons = {entry["path"].removeprefix("app/"): entry["reason"] for entry in said["skipped"]}
    assert code == 1 and codes(said) == ["SG201", "SG403"]
    assert set(reasons) == {
        "future.py", "encoding.py", "huge.py", "generated.py", "deep.py", "minus.py", "dangling.py", "round", "pipe.py",
    }  # fmt: skip
    assert "line 2" in reasons["future.py"] and "encoding" in reasons["encoding.py"]
    assert "1,000,000 bytes" in reasons["huge.py"] and reasons["generated.py"] == "generated code"
    assert "leads back" in reasons["round"] and "No such file" in reasons["dangling.py"]


def test_a_file_that_may_not_be_read_is_skipped(
    project: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: Any, *arguments: Any, **named: Any) -> int:
        if str(path).endswith("keys.py"):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *arguments, **named)

    monkeypatch.setattr("os.open", refuse)
    _code, said = report()
    assert said["skipped"] == [{"path": "app/keys.py", "reason": "unreadable: Permission denied"}]


def test_names_and_texts_that_a_terminal_cannot_show_do_not_end_the_run(project: Path) -> None:
    os.rename(project / "app" / "main.py", os.fsencode(project / "app") + b"/gr\xf6\xdfe.py")
    for name in ("text", "concise", "json", "github", "sarif", "markdown"):
        command = [sys.executable, "-m", "stampede_guard.audit", ".", "--output-format", name]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (1, b""), name
        assert done.stdout.isascii() and b"SG201" in done.stdout


def test_a_terminal_sees_a_bar_and_a_pipe_does_not(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["."])
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    main(["."])
    said = capsys.readouterr().err
    assert "] 2/2 files" in said and said.endswith("\r\x1b[K")


# ----------------------------------------------------------------------------------------------------- hooks


def test_the_hook_runs_the_audit_on_the_files_it_is_given(project: Path) -> None:
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    entry = next(line.split(": ", 1)[1] for line in hook.splitlines() if line.strip().startswith("entry:"))
    program, *arguments = entry.split()
    assert program == "stampede-guard"
    code = "from stampede_guard.ops.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "app/main.py", "app/keys.py"],
        cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "SG201" in done.stdout and "SG403" in done.stdout


def test_a_hook_is_given_tests_too_when_it_names_them(project: Path, report: Report) -> None:
    lay(project, {"tests/test_it.py": FILL})
    assert [f["path"] for f in report("tests/test_it.py")[1]["findings"]] == ["tests/test_it.py"]
