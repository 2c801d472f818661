"""The dashboard and the alert rules fit the metrics, and each alert has a section that says what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from scripts.dashboard import PANELS, dashboard
from stampede_guard.ops.cli.app import app
from stampede_guard.ops.observe.prometheus import PrometheusHook

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "stampede_guard" / "ops" / "dashboards"
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
EXPRESSIONS = [expr for panel in PANELS for expr in panel.lines.values()] + [rule["expr"] for rule in ALERTS]
FROM_PROMETHEUS = {"job", "le"}


def metrics() -> dict[str, tuple[str, ...]]:
    """The labels of each sample name that the hook can write."""
    registry = CollectorRegistry()
    PrometheusHook(registry)
    found: dict[str, tuple[str, ...]] = {}
    for collector in registry._collector_to_names:
        name, labels = collector._name, collector._labelnames  # type: ignore[attr-defined]
        kind = type(collector).__name__
        ends = {"Counter": ("_total",), "Gauge": ("",), "Histogram": ("_bucket", "_count", "_sum")}[kind]
        found |= {name + end: labels for end in ends}
    return found


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_an_expression_uses_metrics_and_labels_that_exist(expr: str) -> None:
    known = metrics()
    used = re.findall(r"(stampede_guard_[a-z0-9_]+)(?:\{([^}]*)\})?", expr)
    assert used
    labels: set[str] = set(FROM_PROMETHEUS)
    for name, selectors in used:
        assert name in known
        labels |= set(known[name])
        assert set(re.findall(r"(\w+)\s*(?:=~|!=|=)", selectors)) <= set(known[name]) | FROM_PROMETHEUS
    for group in re.findall(r"by \(([^)]*)\)", expr):
        assert {word.strip() for word in group.split(",")} <= labels


def test_the_dashboard_shows_every_metric() -> None:
    shown = set(re.findall(r"stampede_guard_[a-z0-9_]+", " ".join(EXPRESSIONS)))
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in metrics()}
    assert families == {name.removesuffix("_bucket") for name in shown}


def test_the_file_of_the_dashboard_is_up_to_date() -> None:
    assert (FOLDER / "grafana.json").read_text("utf-8") == dashboard(), "run python -m scripts.dashboard"


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_each_alert_says_what_is_wrong_and_has_a_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor == rule["alert"].lower()
    text = (ROOT / page).read_text("utf-8")
    assert f"### {rule['alert']}\n" in text
    section = text.split(f"### {rule['alert']}\n")[1].split("\n#")[0]
    assert len(section.split()) > 25, "what it means, what to look at, what to do"


def test_the_command_copies_the_files_and_overwrites_nothing(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["dashboards", str(tmp_path / "new")])
    assert done.exit_code == 0
    copied = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert copied == {name: (FOLDER / name).read_bytes() for name in ("alerts.yml", "grafana.json")}
    json.loads(copied["grafana.json"])
    (tmp_path / "new" / "alerts.yml").write_text("mine")
    again = CliRunner().invoke(app, ["dashboards", str(tmp_path / "new")])
    assert again.exit_code == 2 and "alerts.yml" in again.stderr
    assert (tmp_path / "new" / "alerts.yml").read_text() == "mine"
