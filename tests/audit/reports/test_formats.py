"""Each format of the report, from a real run that finds something of every kind, read back as its readers do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pydantic import ValidationError
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as SarifLog

from stampede_guard.audit import all_rules
from stampede_guard.audit.command import main
from tests.audit.test_engine import FILL, lay

CASES = Path(__file__).resolve().parents[1] / "cases"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every case that is reported, under names with a blank, a comma, a colon and a per cent sign."""
    monkeypatch.chdir(tmp_path)
    for path in CASES.glob("*/flagged/*.py"):
        lay(tmp_path, {f"app, {path.parts[-3]}/{path.name}": path.read_bytes()})
    lay(
        tmp_path,
        {
            "odd/50%41:é|.py": FILL,
            "odd/broken%.py": b"import cachetools\nx = (\n",
            "odd/unused.py": b"x = 1  # noqa: SG201\n",
        },
    )
    return tmp_path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The same run as JSON: what the others are held against."""
    return json.loads(run(capsys, "json"))


def run(capsys: pytest.CaptureFixture[str], name: str) -> str:
    assert main([".", "--no-config", "--min-confidence", "low", "--output-format", name]) == 1
    return capsys.readouterr().out


def test_json_has_every_field_a_tool_needs_of_every_finding(said: dict[str, Any]) -> None:
    types: dict[str, type] = {
        **dict.fromkeys(("path", "code", "name", "message", "confidence", "scope", "function"), str),
        **dict.fromkeys(("line", "end_line", "column"), int),
        "fixable": bool,
        "cost": list,
    }
    names = {rule.code: rule.name for rule in all_rules()} | {"SG000": "unused-suppression"}
    for finding in said["findings"]:
        assert {name: type(finding.get(name)) for name in types} == types
        assert 1 <= finding["line"] <= finding["end_line"] and finding["column"] >= 1 and finding["message"]
        assert finding["confidence"] in ("low", "medium", "high") and finding["scope"] in ("process", "fleet")
        assert finding["name"] == names[finding["code"]]
        assert Path(finding["path"]).is_file() and not Path(finding["path"]).is_absolute()
    assert {finding["code"] for finding in said["findings"]} == set(names)
    assert [entry["path"] for entry in said["skipped"]] == ["odd/broken%.py"]
    assert sum(said["summary"]["codes"].values()) == len(said["findings"])


def test_findings_stand_in_the_order_of_their_places(said: dict[str, Any]) -> None:
    places = [(finding["path"], finding["line"], finding["column"]) for finding in said["findings"]]
    assert places == sorted(places)


def with_what_they_say_of_a_fix(said: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    reviewed = [(f, "; ".join(f["fix_reasons"])) for f in said["findings"]]
    told = [
        (f, f"no fix: {f['no_fix']}" if f["no_fix"] else f"review the fix: {review}" if review else "")
        for f, review in reviewed
    ]
    assert len({about[:3] for _, about in told}) == 3, "the cases have none of one kind"
    return told


def test_concise_is_a_line_for_each_finding_as_editors_read_them(
    capsys: pytest.CaptureFixture[str], said: dict[str, Any]
) -> None:
    *lines, total = run(capsys, "concise").splitlines()
    read = [re.fullmatch(r"(.+?\.py):(\d+):(\d+): (SG\d{3}) (.+)", line) for line in lines]
    found = [(m[1], int(m[2]), int(m[3]), m[4], m[5]) for m in read if m]
    assert found == [
        (f["path"], f["line"], f["column"], f["code"], f"{f['message']}{f' ({about})' if about else ''}")
        for f, about in with_what_they_say_of_a_fix(said)
    ]
    assert lines[-1].startswith("odd/broken%.py: skipped: this Python cannot parse it")
    having = len({place[0] for place in found})
    assert total.startswith(f"{len(found)} findings in {having} of {said['summary']['files']} files, ")
    assert having < said["summary"]["files"] and total.endswith("1 file skipped")


@pytest.mark.parametrize("name", ["text", "concise", "markdown"])
@pytest.mark.parametrize(
    ("sources", "wanted"),
    [
        ([FILL, b"", b""], "1 finding in 1 of 3 files"),
        ([FILL + FILL.replace(b"rates", b"prices"), b""], "2 findings in 1 of 2 files"),
        ([FILL], "1 finding in 1 of 1 file"),
        ([b"", b""], "0 findings in 2 files"),
        ([], "0 findings in 0 files"),
    ],
)
def test_it_says_in_how_many_of_all_files_there_are_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, sources: list[bytes], wanted: str
) -> None:
    folder = tmp_path / "beside"
    folder.mkdir()
    for number, source in enumerate(sources):
        (folder / f"{number}.py").write_bytes(source)
    main([str(folder), "--no-config", "--exit-zero", "--output-format", name])
    assert re.search(rf"^{wanted}(?:\.|,.*)?$", capsys.readouterr().out, re.M)


def test_github_reads_back_what_was_found(capsys: pytest.CaptureFixture[str], said: dict[str, Any]) -> None:
    """A workflow command: properties with their own escapes, then the message with fewer."""
    found = []
    for line in run(capsys, "github").splitlines():
        command = re.fullmatch(r"::(error|warning|notice) (.*?)::(.*)", line)
        assert command, line
        given = dict(part.split("=", 1) for part in command[2].split(","))
        if "skipped" not in command[3]:
            message = _unescaped(command[3])
            found.append((_unescaped(given["file"]), int(given["line"]), int(given["col"]), message))
            assert int(given["endLine"]) >= int(given["line"]) and given["title"].startswith("SG")
    assert found == [
        (f["path"], f["line"], f["column"], "\n".join(filter(None, (f"{f['code']} {f['message']}", about))))
        for f, about in with_what_they_say_of_a_fix(said)
    ]


def _unescaped(text: str) -> str:
    return unquote(text, encoding="utf-8")


def test_markdown_has_a_row_for_each_finding_and_a_table_that_holds(
    capsys: pytest.CaptureFixture[str], said: dict[str, Any]
) -> None:
    text = run(capsys, "markdown")
    rows = [line for line in text.splitlines() if re.match(r"\| .+?\.py:\d+ \|", line)]
    found = [f for f in said["findings"] if f["code"] != "SG000"]
    assert sorted(re.findall(r"\.py:(\d+) \|", row)[0] for row in rows) == sorted(
        str(f["line"]) for f in found
    )
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}
    assert (
        re.findall(r"^## (SG\d{3})", text, re.M) and "- odd/broken%.py: this Python cannot parse it" in text
    )


def test_text_shows_each_finding_in_its_source(
    capsys: pytest.CaptureFixture[str], said: dict[str, Any]
) -> None:
    text = run(capsys, "text")
    for f in said["findings"]:
        head = f"{f['path']}:{f['line']}:{f['column']}: {f['code']} {f['message']}\n"
        frame = text.partition(head)[2].split("\n\n")[0].splitlines()
        source = Path(f["path"]).read_text("utf-8").splitlines()
        shown = next(line for line in frame if re.match(rf" *{f['line']} \|", line))
        assert shown.partition(" | ")[2] == source[f["line"] - 1].expandtabs(4)[:110].rstrip()
        assert frame[frame.index(shown) + 1].endswith("^")


def test_the_summary_puts_the_dearest_pattern_first_and_counts_functions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in tmp_path.rglob("*.py"):
        path.unlink()
    endpoint = (
        "@app.get('/{0}')\n@cache(expire=300)\nasync def {0}():\n    return await db.execute('select 1')\n"
    )
    source = "from fastapi_cache.decorator import cache\n" + "".join(map(endpoint.format, "abcdefghijklmn"))
    lay(
        tmp_path,
        {"app/endpoints.py": source.encode(), "app/keys.py": b'def f(redis):\n    redis.keys("*")\n'},
    )
    text = run(capsys, "text")
    assert re.search(
        r"SG101 fastapi-cache-unlocked: 14 \w+ share this pattern\n.*app/endpoints\.py:3\n", text
    )
    assert text.index("SG101 fastapi-cache-unlocked:") < text.index("SG403 redis-keys:")


def test_the_summary_counts_endpoints_and_functions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in tmp_path.rglob("*.py"):
        path.unlink()

    def told() -> str:
        main([".", "--no-config", "--output-format", "text"])  # information alone is status 0
        return capsys.readouterr().out

    for name, words in (("a", "1 function shares"), ("b", "2 functions share")):
        lay(tmp_path, {f"app/{name}.py": f"def {name}(redis):\n    redis.keys('*')\n".encode()})
        assert f"SG403 redis-keys: {words} this pattern" in told()
    lay(tmp_path, {"app/end.py": b"@app.get('/c')\ndef c(redis):\n    redis.keys('*')\n"})
    assert "SG403 redis-keys: 1 endpoint and 2 functions share this pattern" in told()


def test_sarif_is_valid_by_the_models_made_from_its_schema(
    capsys: pytest.CaptureFixture[str], said: dict[str, Any]
) -> None:
    written = json.loads(run(capsys, "sarif"))
    SarifLog.model_validate(written)
    (tool_run,) = written["runs"]
    found = [_place(result) for result in tool_run["results"]]
    assert found == [
        (f["path"], f["line"], f["column"], f["end_line"], f["code"], f["message"]) for f in said["findings"]
    ]
    rules = [rule["id"] for rule in tool_run["tool"]["driver"]["rules"]]
    assert sorted(rules) == sorted({"SG000", *(rule.code for rule in all_rules())})
    assert {result["ruleId"] for result in tool_run["results"]} <= set(rules)
    (skipped,) = tool_run["invocations"][0]["toolExecutionNotifications"]
    assert skipped["message"]["text"].startswith("skipped: this Python cannot parse it")


def _place(result: dict[str, Any]) -> tuple[Any, ...]:
    (location,) = result["locations"]
    where = location["physicalLocation"]
    region = where["region"]
    path = unquote(where["artifactLocation"]["uri"])
    return (
        path,
        region["startLine"],
        region["startColumn"],
        region["endLine"],
        result["ruleId"],
        result["message"]["text"],
    )


@pytest.mark.parametrize(
    "broken", [{"ruleid": "SG201"}, {"level": "fatal"}, {"message": "bare"}, {"locations": 1}]
)
def test_the_models_refuse_what_the_schema_refuses(
    capsys: pytest.CaptureFixture[str], broken: dict[str, Any]
) -> None:
    written = json.loads(run(capsys, "sarif"))
    written["runs"][0]["results"][0] |= broken
    with pytest.raises(ValidationError):
        SarifLog.model_validate(written)


def test_a_report_goes_to_a_file_when_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([".", "--output-format", "json", "--output-file", "report.json"]) == 1
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["findings"]


UNFIXED = b"""
from redis.asyncio import Redis

redis = Redis()


async def report(user) -> int:
    user = user.owner
    cached = await redis.get(f"report:{user.id}")
    count_the_get()
    if cached is not None:
        return int(cached)
    value = await compute()
    await redis.setex(f"report:{user.id}", 60, value)
    return value


async def total(day: int) -> int:
    cached = await redis.get(f"total:{day}")
    if cached is not None:
        return int(cached)
    value = await compute()
    await redis.setex(f"total:{day}", 60, value)
    return value
"""


@pytest.mark.parametrize(
    "name", ["text", "json", "sarif", "markdown", "concise", "github", "gitlab", "junit"]
)
def test_every_format_says_what_to_review_and_why_there_is_no_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "app.py").write_bytes(UNFIXED)
    main([str(tmp_path), "--no-config", "--select", "SG201", "--output-format", name])
    shown = capsys.readouterr().out
    assert "what it does between the get and the test may not run twice" in shown
    assert "find other code that reads or deletes these keys" in shown
