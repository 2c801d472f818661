"""A real Prometheus scrapes the workers of `make demo`: every expression returns data. Each alert fires when it should
and not else.

Needs `prometheus` and `promtool` (Debian: apt-get install prometheus): `make test-prometheus`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.herd.expiry import record_expiry
from bench.herd.fleet import Fleet
from bench.herd.report import write_report
from scripts.dashboard import PANELS
from tests.bench.test_report import story, told
from tests.ops.dashboards.test_files import ALERTS, FOLDER, ROOT
from tests.prometheus.daemon import ask, prometheus_with
from tests.prometheus.demo import WORKERS, Demo, demo, have_every_fault

PATIENCE = 60.0
DEMO, JOBS = "demo", "jobs"
BUSY = {
    "StampedeGuardStoreAway": ("stampede_guard_store_away{part=''}", "1+0x40"),
    "StampedeGuardStoreRefuses": (
        "stampede_guard_store_refusals_total{kind='full',state='refused'}",
        "0+1x40",
    ),
    "StampedeGuardValuesNotStored": ("stampede_guard_not_stored_total{function='f',kind='full'}", "0+1x40"),
    "StampedeGuardHoldersDie": ("stampede_guard_takeovers_total{function='f'}", "0+1x40"),
    "StampedeGuardLeasesLapse": ("stampede_guard_leases_lost_total{function='f'}", "0+1x40"),
    "StampedeGuardHoldersSlow": ("stampede_guard_fallbacks_total{function='f',outcome='served'}", "0+1x40"),
    "StampedeGuardTimeouts": ("stampede_guard_timeouts_total{function='f',what='wait_timeout'}", "0+1x40"),
    "StampedeGuardComputationsFail": (
        "stampede_guard_computations_total{function='f',outcome='error'}",
        "0+9x40",
    ),
    "StampedeGuardHitRateLow": ("stampede_guard_calls_total{function='f',result='miss'}", "0+900x40"),
    "StampedeGuardJobsFail": ("stampede_guard_job_slots_total{function='f',outcome='failed'}", "0+1x40"),
    "StampedeGuardJobsOverdue": ("stampede_guard_job_overdue{function='f'}", "1+0x40"),
    "StampedeGuardStoreSlow": ("stampede_guard_store_seconds_bucket{part='',le='+Inf'}", "0+9x40"),
}
"""For each alert: the series that rises, once a minute, when something is wrong."""
ALWAYS = (
    ("stampede_guard_calls_total{function='f',result='hit'}", "0+100x40"),
    ("stampede_guard_computations_total{function='f',outcome='ok'}", "0+1x40"),
    ("stampede_guard_store_seconds_bucket{part='',le='0.1'}", "0+1x40"),
    ("stampede_guard_store_seconds_bucket{part='',le='0.25'}", "0+1x40"),
)


def with_job(series: str) -> str:
    return series.replace("{", "{job='shop',")


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_fires_when_it_should_and_is_quiet_otherwise(rule: dict[str, Any], tmp_path: Path) -> None:
    alert = rule["alert"]

    def case(*, wrong: bool) -> dict[str, Any]:
        series = [
            *ALWAYS,
            *(one if name == alert and wrong else (one[0], "0+0x40") for name, one in BUSY.items()),
        ]
        return {
            "interval": "1m",
            "input_series": [{"series": with_job(name), "values": values} for name, values in series],
        }

    firing = promtool_says({"rule_files": ["alerts.yml"], "tests": [case(wrong=True)]}, alert, tmp_path)
    quiet = promtool_says({"rule_files": ["alerts.yml"], "tests": [case(wrong=False)]}, alert, tmp_path)
    assert "got:[]" not in firing and f'alertname="{alert}"' in firing
    assert quiet == "", "nothing is wrong, and nothing is reported"


def promtool_says(told: dict[str, Any], alert: str, folder: Path) -> str:
    """What promtool says that fires at minute 35, if nothing is expected to. Empty: nothing fires."""
    (folder / "alerts.yml").write_text((FOLDER / "alerts.yml").read_text("utf-8"), "utf-8")
    told["tests"][0]["alert_rule_test"] = [{"eval_time": "35m", "alertname": alert, "exp_alerts": []}]
    (folder / "tests.yml").write_text(yaml.safe_dump(told), "utf-8")
    done = subprocess.run(
        ["promtool", "test", "rules", str(folder / "tests.yml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 0:
        return ""
    assert "FAILED" in done.stdout + done.stderr, done.stdout + done.stderr
    return re.sub(r"\s+", "", done.stdout + done.stderr)


def test_the_rules_are_well_formed() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", str(FOLDER / "alerts.yml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and f"{len(ALERTS)} rules found" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def shop() -> Iterator[Demo]:
    with demo() as found:
        yield found


@pytest.fixture(scope="module")
def prometheus(shop: Demo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """It scrapes the demo's port, behind which are eight workers, and a process with leases and jobs."""
    command = [sys.executable, "-m", "tests.prometheus.fleet"]
    jobs = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert jobs.stdout is not None
    try:
        ports = {DEMO: [shop.port], JOBS: [int(jobs.stdout.readline())]}
        with prometheus_with(tmp_path_factory.mktemp("prometheus"), ports) as url:
            have_every_fault(shop)
            yield url
    finally:
        jobs.communicate(timeout=60)


def eventually(url: str, expr: str) -> list[Any]:
    """The first answer with data. Prometheus needs some scrapes before a rate exists."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            found: list[Any] = ask(url, "query", query=expr)["result"]
        except OSError:
            found = []
        if found and all(one["value"][1] != "NaN" for one in found):
            return found
        time.sleep(0.2)
    raise AssertionError(f"no data: {expr}")


def source_of(expr: str) -> str:
    """Which job of Prometheus has the data. The demo has neither leases of its own nor jobs."""
    return JOBS if re.search(r"stampede_guard_(leases_held|held_leases|job_)", expr) else DEMO


def concrete(expr: str) -> str:
    """As Grafana fills in its variables."""
    return expr.replace("$__rate_interval", "10s").replace("$job", source_of(expr)).replace("$function", ".*")


@pytest.mark.parametrize(
    ("title", "expr"),
    [(panel.title, expr) for panel in PANELS for expr in panel.lines.values()],
    ids=lambda word: None,
)
def test_every_expression_of_the_dashboard_returns_data(prometheus: str, title: str, expr: str) -> None:
    assert eventually(prometheus, concrete(expr)), title


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_expression_of_the_rules_finds_its_series(prometheus: str, rule: dict[str, Any]) -> None:
    # Without its comparison: the series exist, whether or not the alert fires.
    bare = re.sub(r"\s[<>]\s[0-9.]+", "", rule["expr"])
    found = eventually(prometheus, bare)
    assert source_of(bare) in {one["metric"]["job"] for one in found}


def test_prometheus_evaluates_the_rules_without_an_error(prometheus: str) -> None:
    eventually(prometheus, "up")
    groups = ask(prometheus, "rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == {rule["alert"] for rule in ALERTS}
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}


async def test_the_report_of_the_demo_has_a_lane_for_each_of_its_workers(shop: Demo, tmp_path: Path) -> None:
    """The last test here, on the eight workers that run already: it sends their users away."""
    shop.resting.set()
    guard = told("guard", 1)
    fleet = Fleet(shop.settings, WORKERS, port=shop.port)
    guard.recording.herd = herd = await record_expiry(
        shop.redis.url, shop.namespace, fleet, shop.settings.ttl
    )
    assert herd is not None
    assert (herd.faults, herd.computations, len(herd.lanes)) == ((), 1, WORKERS)
    write_report(story(told("local", 8), guard), tmp_path / "herd.html")
    page = (tmp_path / "herd.html").read_text()
    assert page.count('class="lane"') == WORKERS and "in 8 workers, 1 query" in page
