"""The audit's own benchmark, on a tree of three files: what it counts, never how fast."""

from __future__ import annotations

import json
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from bench.audit.__main__ import figure_cells, main
from bench.audit.measure import run
from bench.audit.trees import passing, whole

FILL = """
def rates(cache):
    found = cache.get("rates")
    if found is None:
        found = load_rates()
        cache.set("rates", found)
    return found
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "fill.py").write_text(FILL)
    (folder / "plain.py").write_text("x = 1\n")
    (folder / "notes.txt").write_text("cache")
    return folder


def test_each_tool_reads_both_trees_and_the_figures_are_written(source: Path, tmp_path: Path) -> None:
    assert main(["--tree", str(source), "--times", "1", "--json", str(tmp_path / "new" / "a.json")]) == 0
    rows = json.loads((tmp_path / "new" / "a.json").read_text())["rows"]
    assert [(row["tree"], row["files"], row["tool"]) for row in rows] == [
        (tree, files, tool)
        for tree, files in (("everything", 2), ("all of it parsed", 1))
        for tool in ("stampede-guard audit", "ruff check", "bandit")
    ]
    ours = [row for row in rows if row["tool"] == "stampede-guard audit"]
    assert all(row["rate"] > 0 and row["memory"] > 0 and row["cpu"] > 0 for row in ours)


def test_the_second_tree_holds_what_the_prefilter_lets_through(source: Path, tmp_path: Path) -> None:
    tree = whole(tmp_path / "whole", [source])
    assert (tree.files, tree.size) == (2, len(FILL) + len("x = 1\n"))
    assert [path.name for path in passing(tree, tmp_path / "passing").folder.rglob("*.py")] == ["fill.py"]


def test_a_tool_that_fails_is_an_error_and_no_figure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with 1"):
        run(["false"])


def test_a_tool_that_takes_too_long_is_stopped_and_its_row_says_so() -> None:
    assert run(["sh", "-c", "sleep 612.5 & sleep 612.5"], 1.0) is None
    assert not [one for one in psutil.process_iter() if "612.5" in _command(one)], (
        "its children are stopped, too"
    )
    row = {"tree": "everything", "files": 12_000, "bytes": 1_000_000, "tool": "bandit", "longer": 120.0}
    assert figure_cells(row)[4:] == ("> 120", "", "< 100", "", "")


def _command(process: psutil.Process) -> list[str]:
    try:
        return [] if process.status() == psutil.STATUS_ZOMBIE else process.cmdline()
    except psutil.Error:
        return []
