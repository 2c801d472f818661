"""Writes the Grafana dashboard: `python -m scripts.dashboard`. A panel is a title, a unit and its expressions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["ALL", "dashboard"]

FILE = Path(__file__).resolve().parents[1] / "stampede_guard" / "ops" / "dashboards" / "grafana.json"
ALL = 'job=~"$job", function=~"$function"'
SPAN = "$__rate_interval"


class Panel(NamedTuple):
    """`lines`: an expression for each legend."""

    title: str
    unit: str
    lines: dict[str, str]
    kind: str = "timeseries"
    width: int = 12
    about: str = ""


def rate(metric: str, by: str, *labels: str) -> str:
    return f"sum by ({by}) (rate(stampede_guard_{metric}{{{', '.join((ALL, *labels))}}}[{SPAN}]))"


def quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share}, {rate(f'{metric}_bucket', 'le, function')})"


def store(share: float) -> str:
    rates = f'rate(stampede_guard_store_seconds_bucket{{job=~"$job"}}[{SPAN}])'
    return f"histogram_quantile({share}, sum by (le, part) ({rates}))"


def now(metric: str, by: str = "") -> str:
    return f'sum{f" by ({by})" if by else ""} (stampede_guard_{metric}{{job=~"$job"}})'


HITS = f'sum(rate(stampede_guard_calls_total{{{ALL}, result=~"hit|stale"}}[{SPAN}]))'
CALLS = f"sum(rate(stampede_guard_calls_total{{{ALL}}}[{SPAN}]))"
COMPUTATIONS = f"sum(rate(stampede_guard_computations_total{{{ALL}}}[{SPAN}]))"

PANELS = (
    Panel("Hit rate", "percentunit", {"": f"{HITS} / {CALLS}"}, "stat", 6),
    Panel(
        "Computations saved per second",
        "ops",
        {"": f"{CALLS} - {COMPUTATIONS}"},
        "stat",
        6,
        "Calls minus computations: what plain functions would have run in addition.",
    ),
    Panel("Redis is away for", "short", {"": now("store_away")}, "stat", 6, "Processes, or their parts."),
    Panel("Computations in flight", "short", {"": now("in_flight")}, "stat", 6),
    Panel("Calls", "ops", {"{{result}}": rate("calls_total", "result")}),
    Panel("Computations by function", "ops", {"{{function}}": rate("computations_total", "function")}),
    Panel(
        "Duration of computations",
        "s",
        {
            "{{function}} P50": quantile(0.5, "compute_seconds"),
            "{{function}} P99": quantile(0.99, "compute_seconds"),
        },
    ),
    Panel("Waits of callers without a hit, P99", "s", {"{{function}}": quantile(0.99, "wait_seconds")}),
    Panel("Where stored values came from", "ops", {"{{source}}": rate("served_total", "source")}),
    Panel("Callers served by another call", "ops", {"{{function}}": rate("collapsed_total", "function")}),
    Panel(
        "Failed computations",
        "ops",
        {"{{function}}": rate("computations_total", "function", 'outcome="error"')},
    ),
    Panel(
        "Faults",
        "ops",
        {
            "taken over {{function}}": rate("takeovers_total", "function"),
            "lease lapsed {{function}}": rate("leases_lost_total", "function"),
            "fallback {{function}} {{outcome}}": rate("fallbacks_total", "function, outcome"),
            "{{what}} {{function}}": rate("timeouts_total", "function, what"),
            "not stored {{function}} {{kind}}": rate("not_stored_total", "function, kind"),
        },
    ),
    Panel(
        "The store",
        "ops",
        {
            "breaker {{state}}": 'sum by (state) (rate(stampede_guard_breaker_changes_total{job=~"$job"}'
            f"[{SPAN}]))",
            "{{state}} {{kind}}": 'sum by (state, kind) (rate(stampede_guard_store_refusals_total{job=~"$job"}'
            f"[{SPAN}]))",
            "invalidations {{outcome}}": 'sum by (outcome) (rate(stampede_guard_invalidations_total{job=~"$job"}'
            f"[{SPAN}]))",
        },
    ),
    Panel(
        "Answers of the store",
        "s",
        {"P50 {{part}}": store(0.5), "P99 {{part}}": store(0.99)},
        about="As the processes see it: a busy event loop adds to it.",
    ),
    Panel(
        "Sizes of stored values",
        "bytes",
        {
            "{{function}} P50": quantile(0.5, "value_bytes"),
            "{{function}} P99": quantile(0.99, "value_bytes"),
        },
    ),
    Panel("Copies in the processes", "bytes", {"l1_ttl": now("l1_bytes")}),
    Panel("Refreshes", "ops", {"{{function}} {{outcome}}": rate("refreshes_total", "function, outcome")}),
    Panel(
        "Leases",
        "short",
        {
            "held {{function}}": now("leases_held", "function"),
            "{{outcome}} per second": rate("held_leases_total", "outcome"),
        },
    ),
    Panel(
        "Jobs",
        "short",
        {
            "{{function}} {{outcome}} per second": rate("job_slots_total", "function, outcome"),
            "{{function}} P99, s": quantile(0.99, "job_seconds"),
            "{{function}} is overdue": 'max by (function) (stampede_guard_job_overdue{job=~"$job"})',
        },
    ),
    Panel("Mode shadow", "ops", {"{{function}} {{found}}": rate("shadow_total", "function, found")}),
)


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    x = y = 0
    for number, panel in enumerate(PANELS, 1):
        height = 4 if panel.kind == "stat" else 8
        found.append({
            "id": number,
            "title": panel.title,
            "description": panel.about,
            "type": panel.kind,
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": {"x": x, "y": y, "w": panel.width, "h": height},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(65 + place), "expr": expr, "legendFormat": legend}
                for place, (legend, expr) in enumerate(panel.lines.items())
            ],
        })  # fmt: skip
        x += panel.width
        if x >= 24:
            x, y = 0, y + height
    return found


def dashboard() -> str:
    """The dashboard as JSON, for Grafana 10 and later."""
    told = {
        "title": "stampede_guard",
        "uid": "stampede-guard",
        "tags": ["cache", "stampede_guard"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                _variable("job", "label_values(stampede_guard_calls_total, job)"),
                _variable("function", 'label_values(stampede_guard_calls_total{job=~"$job"}, function)'),
            ]
        },
        "panels": _panels(),
    }
    return json.dumps(told, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(dashboard(), "utf-8")
    print(f"{len(PANELS)} panels in {FILE.name}")
