"""The Prometheus hook: what is counted, under which labels, and how many of them there can be."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import typing

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from stampede_guard import StampedeGuard, events
from stampede_guard.ops.observe.prometheus import MOST_FUNCTIONS, PrometheusHook
from stampede_guard.stores.memory import MemoryStore

ENTRY = "shop:secret@example.org"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def text(registry: CollectorRegistry) -> str:
    return generate_latest(registry).decode()


def some(kind: type) -> list[events.Event]:
    """An event of this kind for each of its outcomes."""
    fields = {"function": "f", "entry": ENTRY, "seconds": 0.25, "flight": "1", "callers": 3, "done": True}
    fields |= {"token": 7, "why": "", "holder": "somebody", "since": 7.0}
    fields |= {"size": 700, "bytes": 700, "change": 700}
    fields |= {"slot": 1, "run": "r", "attempt": 1, "outcome": "completed"}
    hints = typing.get_type_hints(kind)
    choices = {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_args(hint)}
    of_type = {str: "text", int: 7, float: 0.25, bool: True}
    base = {
        field.name: fields[field.name] if field.name in fields else of_type[hints[field.name]]
        for field in dataclasses.fields(kind)
        if field.name not in choices and (field.name in fields or field.default is dataclasses.MISSING)
    }
    if not choices:
        return [kind(**base)]
    ((name, values),) = choices.items()
    return [kind(**base, **{name: value}) for value in values]


@pytest.mark.parametrize("kind", typing.get_args(events.Event), ids=lambda kind: kind.__name__)
def test_every_event_but_the_start_of_a_job_is_counted(registry: CollectorRegistry, kind: type) -> None:
    hook = PrometheusHook(registry)
    for event in some(kind):
        if kind is events.JobOnTime:
            hook(events.JobOverdue("f", ENTRY, 7.0))
        before = text(registry)
        hook(event)
        assert (text(registry) != before) == (kind is not events.JobStarted)
    assert ENTRY not in text(registry) and "secret" not in text(registry)


async def test_a_guard_with_the_hook_fills_the_metrics(registry: CollectorRegistry) -> None:
    guard = StampedeGuard(MemoryStore(), namespace="shop", hooks=(PrometheusHook(registry),))

    @guard.locked_cache(ttl=60, name="reports")
    async def report(user: str) -> str:
        return "report"

    for _ in range(3):
        await report("secret@example.org")
    await guard.aclose()

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"stampede_guard_{name}", labels)

    assert sample("calls_total", function="reports", result="miss") == 1
    assert sample("calls_total", function="reports", result="hit") == 2
    assert sample("computations_total", function="reports", outcome="ok") == 1
    assert sample("compute_seconds_count", function="reports") == 1
    assert sample("wait_seconds_count", function="reports", outcome="computed") == 1
    assert "secret" not in text(registry)


def test_what_alerts_count_begins_with_zero_before_anything_goes_wrong(registry: CollectorRegistry) -> None:
    hook = PrometheusHook(registry)
    hook(events.Miss("f", ENTRY))
    hook(events.JobOnTime("sync", ENTRY))
    for name, labels in (
        ("calls_total", {"function": "f", "result": "hit"}),
        ("takeovers_total", {"function": "f"}),
        ("leases_lost_total", {"function": "f"}),
        ("job_slots_total", {"function": "sync", "outcome": "failed"}),
        ("store_refusals_total", {"kind": "permission", "state": "refused"}),
    ):
        # Otherwise its first event is no increase for Prometheus.
        assert registry.get_sample_value(f"stampede_guard_{name}", labels) == 0


def test_gauges_follow_what_begins_and_ends(registry: CollectorRegistry) -> None:
    hook = PrometheusHook(registry)

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"stampede_guard_{name}", labels)

    hook(events.Computed("f", ENTRY, 0.1, "began before the hook"))
    hook(events.Started("f", ENTRY, "1"))
    hook(events.Started("f", ENTRY, "1", fallback=True))
    assert sample("in_flight", function="f") == 2
    hook(events.Computed("f", ENTRY, 0.1, "1"))
    assert sample("in_flight", function="f") == 1
    hook(events.Computed("f", ENTRY, 0.1, "1", fallback=True))
    assert sample("in_flight", function="f") == 0
    hook(events.BreakerOpened())
    assert sample("store_away", part="") == 1
    hook(events.BreakerClosed())
    assert sample("store_away", part="") == 0
    hook(events.LeaseWon("election", ENTRY, 1, 0.1))
    hook(events.LeaseSkipped("election", ENTRY, "somebody", 0.1))
    assert sample("leases_held", function="election") == 1
    hook(events.HoldLost("election", ENTRY, 1, 0.1, "silence"))
    assert sample("leases_held", function="election") == 0
    hook(events.Stale("f", ENTRY, "l1"))
    assert sample("served_total", function="f", source="l1") == 1
    for change in (4_000, 5_000, -9_000):
        hook(events.L1Sized(4_000, change))
    assert sample("l1_bytes") == 0
    for event, late in ((events.JobOverdue("sync", ENTRY, 9.0), 1), (events.JobOnTime("sync", ENTRY), 0)):
        hook(event)
        assert sample("job_overdue", function="sync") == late


def test_labels_are_bounded_whatever_keys_are_called(registry: CollectorRegistry) -> None:
    hook = PrometheusHook(registry)
    for number in range(MOST_FUNCTIONS + 50):
        hook(events.Hit(f"shop:{number}", ENTRY))
    lines = [line for line in text(registry).splitlines() if line.startswith("stampede_guard_calls_total")]
    assert len(lines) == 3 * (MOST_FUNCTIONS + 1)
    assert (
        registry.get_sample_value("stampede_guard_calls_total", {"function": "other", "result": "hit"}) == 50
    )


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("prometheus", "prometheus_client", "prometheus"), ("otel", "opentelemetry", "otel")],
)
def test_a_hook_without_its_extra_says_what_to_install(module: str, package: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from stampede_guard.errors import Misuse\n"
        f"try: import stampede_guard.observe.{module}\n"
        "except Misuse as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert f"pip install '.[{extra}]'" in told.stdout
