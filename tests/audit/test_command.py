"""What people expect of a linter: selection, suppressions, baselines, formats, exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stampede_guard.audit import all_rules, watching
from stampede_guard.audit.command import explain_main, main
from stampede_guard.audit.reports.explain import explain, pages, table
from tests.audit.test_engine import FILL

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_bytes(FILL)
    return tmp_path


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main([*arguments, "--output-format", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_finding_in_json_has_what_a_tool_needs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = report(capsys, ".")
    (finding,) = said["findings"]  # type: ignore[misc]
    assert code == 1
    assert finding["path"] == "app/main.py"
    assert (finding["line"], finding["end_line"], finding["column"]) == (3, 3, 13)
    assert (finding["code"], finding["name"]) == ("SG201", "get-compute-set")
    assert finding["confidence"] == "high" and finding["scope"] == "process" and finding["fixable"] is False
    assert finding["message"]


def test_exit_codes_tell_clean_found_and_misused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["."]) == 1
    assert main([".", "--exit-zero"]) == 0
    assert main([".", "--ignore", "SG2"]) == 0
    assert main(["no/such/file"]) == 2
    assert main([".", "--select", "XX1"]) == 2
    (project / "app" / "broken.py").write_text("def (:\n")
    assert main([".", "--exit-zero"]) == 0
    assert main([".", "--select", "SG4"]) == 1  # a syntax error, without a finding
    assert main([".", "--exit-zero", "--strict"]) == 2
    assert "no such file or folder: no/such/file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("select", "count"), [("SG201", 1), ("SG2", 1), ("get-compute-set", 1), ("SG3,SG4", 0), ("ALL", 1)]
)
def test_rules_are_selected_by_code_beginning_or_name(
    project: Path, capsys: pytest.CaptureFixture[str], select: str, count: int
) -> None:
    assert len(report(capsys, ".", "--select", select)[1]["findings"]) == count  # type: ignore[arg-type]


def test_a_suppression_silences_its_line_and_is_reported_when_unused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "app" / "main.py"
    path.write_bytes(
        FILL.replace(b'cache.get("rates")', b'cache.get("rates")  # noqa: SG201 one caller exists')
    )
    assert report(capsys, ".")[0] == 0
    path.write_text("x = 1  # noqa: SG201\n")
    code, said = report(capsys, ".")
    assert code == 1
    assert [f["code"] for f in said["findings"]] == ["SG000"]  # type: ignore[union-attr,index]


def test_suppressions_can_be_written(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([".", "--add-noqa"]) == 0
    assert b'cache.get("rates")  # noqa: SG201\n' in (project / "app" / "main.py").read_bytes()
    assert main(["."]) == 0


def test_with_a_baseline_only_new_findings_fail(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([".", "--write-baseline", "known.json"]) == 0
    assert main([".", "--baseline", "known.json"]) == 0
    (project / "app" / "main.py").write_bytes(b"\n\n\n" + FILL)
    assert main([".", "--baseline", "known.json"]) == 0
    (project / "app" / "other.py").write_bytes(FILL)
    assert main([".", "--baseline", "known.json"]) == 1
    assert main([".", "--baseline", "absent.json"]) == 2


def test_the_project_configures_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = project / "pyproject.toml"
    config.write_text('[tool.stampede-guard.audit]\nper-file-ignores = {"app/*" = ["SG201"]}\n')
    assert main(["."]) == 0
    config.write_text('[tool.stampede-guard.audit]\nexclude = ["app"]\n')
    assert main(["."]) == 0
    config.write_text("[tool.stampede-guard.audit]\nno-such = 1\n")
    assert main(["."]) == 2
    assert "'no-such' is not a setting" in capsys.readouterr().err


def test_only_lines_changed_since_a_revision_are_judged(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments],
            cwd=project,
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    assert report(capsys, ".", "--changed-since", "HEAD")[0] == 0
    (project / "app" / "main.py").write_bytes(FILL + FILL.replace(b"rates", b"prices"))
    code, said = report(capsys, ".", "--changed-since", "HEAD")
    assert code == 1 and [f["function"] for f in said["findings"]] == ["prices"]  # type: ignore[union-attr,index]
    assert main([".", "--changed-since", "no-such-revision"]) == 2


def test_standard_input_is_judged_under_a_name(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FILL)))
    code, said = report(capsys, "-", "--stdin-filename", "app/editor.py")
    assert code == 1 and said["findings"][0]["path"] == "app/editor.py"  # type: ignore[index]


def test_every_format_names_the_place(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, wanted in {
        "text": "app/main.py:3:13: SG201",
        "concise": "app/main.py:3:13: SG201",
        "github": "file=app/main.py,line=3,endLine=3,col=13::SG201",
        "markdown": "| app/main.py:3 |",
        "sarif": '"ruleId": "SG201"',
    }.items():
        main([".", "--output-format", name])
        assert wanted in capsys.readouterr().out, name


def test_sarif_names_its_version_and_each_result_a_known_rule(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([".", "--output-format", "sarif"])
    said = json.loads(capsys.readouterr().out)
    (run,) = said["runs"]
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert said["version"] == "2.1.0" and {result["ruleId"] for result in run["results"]} <= known
    assert {rule.code for rule in all_rules()} < known


def test_a_decorator_is_reported_with_its_uses(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = (Path(__file__).parent / "cases" / "SG203" / "flagged" / "decorator.py").read_text()
    (project / "app" / "caching.py").write_text(source)
    (project / "app" / "views.py").write_text("from app.caching import cached\n\n@cached(5)\ndef a(): ...\n")
    _code, said = report(capsys, ".", "--select", "SG203")
    assert said["findings"][0]["message"].endswith("(used 2 times)")  # type: ignore[index]


@pytest.mark.parametrize(
    ("other", "paths", "count"),
    [
        ("x = 1\n", ["."], 0),
        ("x = 1\n", ["app/caching.py"], 1),  # who calls it is not seen
        ("from app import caching\n\nload = caching.cached(5)(print)\n", ["."], 1),
        ("from app.caching import cached as kept\n", ["."], 1),
        ("from app.caching import cached\n\nkept = cached\n", ["."], 1),
        ('__all__ = ["x", "cached"]\n', ["."], 1),
    ],
)
def test_a_decorator_that_nothing_uses_is_left_out(
    project: Path, capsys: pytest.CaptureFixture[str], other: str, paths: list[str], count: int
) -> None:
    source = (Path(__file__).parent / "cases" / "SG203" / "flagged" / "decorator.py").read_text()
    (project / "app" / "caching.py").write_text(source.replace("@cached(", "@another("))
    (project / "app" / "views.py").write_text(other)
    _code, said = report(capsys, *paths, "--select", "SG203")
    assert len(said["findings"]) == count  # type: ignore[arg-type]


def test_a_view_behind_a_decorator_is_reported_although_no_code_calls_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (Path(__file__).parent / "cases" / "SG203" / "flagged" / "decorator.py").read_text()
    (project / "app" / "caching.py").write_text(source)
    (project / "app" / "views.py").write_text(
        "from app.caching import cached\n\n\n@router.get('/totals')\n@cached(5)\n"
        "async def totals(request):\n    return requests.get(ADDRESS).json()\n"
    )
    _code, said = report(capsys, ".", "--select", "SG203")
    found = [finding for finding in said["findings"] if finding["path"] == "app/views.py"]  # type: ignore[attr-defined]
    assert [finding["function"] for finding in found] == ["totals"] and "used" not in found[0]["message"]


@pytest.mark.parametrize(("elects", "count"), [("", 1), ("if not try_flock():\n        return\n    ", 0)])
def test_a_scheduler_whose_callers_are_elected_in_another_file_is_left_alone(
    project: Path, capsys: pytest.CaptureFixture[str], elects: str, count: int
) -> None:
    (project / "app" / "jobs.py").write_text(
        "from apscheduler.schedulers.background import BackgroundScheduler\n\n"
        "scheduler = BackgroundScheduler()\n\n\ndef init_scheduler():\n    scheduler.start()\n"
    )
    (project / "app" / "web.py").write_text(
        "import fcntl\n\nfrom app.jobs import init_scheduler\n\n\n"
        f"async def begin():\n    {elects}init_scheduler()\n"
    )
    _code, said = report(capsys, ".", "--select", "SG401")
    assert len(said["findings"]) == count  # type: ignore[arg-type]


def test_a_rule_is_explained_by_code_or_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain_main(["SG201"]) == 0
    by_code = capsys.readouterr().out
    assert explain_main(["get-compute-set"]) == 0
    assert capsys.readouterr().out == by_code and "When not to care" in by_code
    assert explain_main(["SG999"]) == 2
    assert explain_main([]) == 0
    assert all(rule.code in capsys.readouterr().out or True for rule in all_rules())


def test_the_page_of_rules_is_what_the_rules_say() -> None:
    page = (ROOT / "docs" / "audit.md").read_text("utf-8")
    assert table() in page, "write it anew: python -m scripts.audit_docs"
    assert pages() in page, "write it anew: python -m scripts.audit_docs"


def test_the_program_hands_over_to_the_audit(project: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        code = "from stampede_guard.ops.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        return done.returncode, done.stdout

    assert run("audit", ".", "--output-format", "concise")[0] == 1
    assert run("explain", "SG201") == (0, explain("SG201"))


def test_information_is_shown_and_fails_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = "import time\n\n\nasync def poll():\n    time.sleep(1)\n    time.sleep(2)\n"
    (tmp_path / "app.py").write_text(source, "utf-8")
    assert main(["."]) == 0
    shown = capsys.readouterr().out
    assert shown.count("SG404 time.sleep blocks") == 1 and "(also in line 6)" in shown
    assert "= information, confidence high" in shown
    assert main([".", "--output-format", "sarif"]) == 0
    assert {result["level"] for result in json.loads(capsys.readouterr().out)["runs"][0]["results"]} == {
        "note"
    }
    assert main([".", "--output-format", "github"]) == 0
    assert capsys.readouterr().out.startswith("::notice title=SG404")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert re.fullmatch(r"stampede-guard audit \d\S*\n", capsys.readouterr().out)


def test_statistics_count_each_rule(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([".", "--statistics"]) == 1
    assert re.fullmatch(r"1  SG201  \S+.*  get-compute-set\n", capsys.readouterr().out)


def test_a_rule_can_be_added_to_the_others(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "app" / "more.py").write_text(
        "from shop import cache, quality\n\n\ndef report(day):\n    found = cache.get(day)\n    if not found:\n"
        "        found = quality.report(day)\n        cache.set(day, found, 60)\n    return found\n",
        "utf-8",
    )

    def codes(*arguments: str) -> list[str]:
        return [finding["code"] for finding in report(capsys, ".", *arguments)[1]["findings"]]  # type: ignore[attr-defined]

    assert codes() == ["SG201", "SG201"]
    assert codes("--extend-select", "SG205") == ["SG201", "SG201", "SG205"]
    assert codes("--select", "SG3", "--extend-select", "SG205") == ["SG205"]
    (project / "pyproject.toml").write_text(
        '[tool.stampede-guard.audit]\nextend-select = ["SG205"]\n', "utf-8"
    )
    assert codes() == ["SG201", "SG201", "SG205"]


def test_a_watch_reports_after_each_change(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text("x = 1\n", "utf-8")
    edits = iter((None, "x = 12\n", None, ""))

    def pause(_seconds: float) -> None:
        text = next(edits)
        if text:
            path.write_text(text, "utf-8")
        elif text == "":
            path.unlink()

    changed = watching.changes(lambda: [str(path)], pause)
    assert [next(changed), next(changed)] == [[str(path)], [str(path)]]


def test_gitlab_and_junit_reports_say_where_and_why(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([".", "--output-format", "gitlab"]) == 1
    (issue,) = json.loads(capsys.readouterr().out)
    assert issue["location"] == {"path": "app/main.py", "lines": {"begin": 3, "end": 3}}
    assert issue["severity"] == "major" and len(issue["fingerprint"]) == 64
    assert main([".", "--output-format", "junit"]) == 1
    suite = ElementTree.fromstring(capsys.readouterr().out)[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert suite[0].get("classname") == "app/main.py" and "audit.md#sg201" in (suite[0][0].text or "")


@pytest.mark.parametrize("name", ["text", "json", "sarif", "markdown", "gitlab", "junit"])
def test_each_finding_has_the_address_of_its_rule(
    project: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    main([".", "--output-format", name])
    assert "docs/audit.md#sg201" in capsys.readouterr().out


def test_keys_are_reported_once_per_file_with_their_number(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "".join(f"def drop_{n}(redis):\n    return redis.keys('{n}:*')\n" for n in range(3))
    (project / "app" / "main.py").write_text(source)
    (project / "app" / "other.py").write_text("def drop(redis):\n    return redis.keys('a:*')\n")
    _code, said = report(capsys, ".", "--select", "SG403")
    first, second = said["findings"]  # type: ignore[misc]
    assert (first["path"], first["line"]) == ("app/main.py", 2)
    assert first["message"].endswith("(3 times in this file, also in line 4, 6)")
    assert second["path"] == "app/other.py" and "times" not in second["message"]
    main([".", "--select", "SG403", "--write-baseline", "known.json"])
    (project / "app" / "main.py").write_text(f"{source}def more(redis):\n    return redis.keys('m:*')\n")
    _code, said = report(capsys, ".", "--select", "SG403", "--baseline", "known.json")
    assert [finding["line"] for finding in said["findings"]] == [8]  # type: ignore[attr-defined]
