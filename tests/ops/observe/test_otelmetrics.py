"""OpenTelemetry's metrics: each event reaches an instrument, and none carries a part of a key."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from stampede_guard import StampedeGuard, events
from stampede_guard.ops.observe.otelmetrics import MOST_FUNCTIONS, OpenTelemetryMetrics
from stampede_guard.stores.memory import MemoryStore
from tests.ops.observe.test_prometheus import ENTRY, some

UNCOUNTED = {events.JobStarted, events.LeaseSkipped, events.Compared}


class Numbers:
    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.hook = OpenTelemetryMetrics(MeterProvider([self.reader]).get_meter("test"))

    def all(self) -> dict[str, list[tuple[dict[str, Any], float]]]:
        data = self.reader.get_metrics_data()
        found: dict[str, list[tuple[dict[str, Any], float]]] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        number = getattr(point, "count", getattr(point, "value", 0))
                        found.setdefault(metric.name, []).append((dict(point.attributes or {}), number))
        return found

    def of(self, name: str, **attributes: str) -> float:
        wanted = {f"stampede_guard.{word}": value for word, value in attributes.items()}
        return sum(
            number
            for found, number in self.all().get(f"stampede_guard.{name}", [])
            if wanted.items() <= found.items()
        )


@pytest.mark.parametrize("kind", typing.get_args(events.Event), ids=lambda kind: kind.__name__)
def test_every_event_reaches_an_instrument(kind: type) -> None:
    for event in some(kind):
        numbers = Numbers()
        if kind is events.BreakerClosed:
            numbers.hook(events.BreakerOpened())
        if kind is events.JobOnTime:
            numbers.hook(events.JobOverdue("f", ENTRY, 7.0))
        before = numbers.all()
        numbers.hook(event)
        after = numbers.all()
        assert (before != after) == (kind not in UNCOUNTED)
        assert ENTRY not in str(after) and "secret" not in str(after)


async def test_a_guard_fills_the_instruments() -> None:
    numbers = Numbers()
    guard = StampedeGuard(MemoryStore(), hooks=(numbers.hook,))

    @guard.locked_cache(ttl=60, name="report")
    async def report(number: int) -> str:
        assert numbers.of("in_flight", function="report") == 1
        return "report"

    for _ in range(3):
        await report(7)
    await report.invalidate(7)
    await guard.aclose()
    assert numbers.of("calls", function="report", result="miss") == 1
    assert numbers.of("calls", function="report", result="hit", source="store") == 2
    assert numbers.of("compute.duration", function="report") == 1
    assert numbers.of("wait.duration", function="report", outcome="computed") == 1
    assert numbers.of("in_flight", function="report") == 0
    assert numbers.of("invalidations", outcome="done") == 1


def test_one_outage_counts_once_however_many_guards_report_it() -> None:
    numbers = Numbers()
    for _ in range(3):
        numbers.hook(events.BreakerOpened())
    assert numbers.of("store.away", part="") == 1
    for _ in range(3):
        numbers.hook(events.BreakerClosed())
    assert numbers.of("store.away", part="") == 0


def test_an_error_has_the_attribute_of_the_semantic_conventions() -> None:
    numbers = Numbers()
    numbers.hook(events.Computed("f", ENTRY, 0.1, "1", error="LookupError"))
    ((attributes, _),) = numbers.all()["stampede_guard.compute.duration"]
    assert attributes == {"stampede_guard.function": "f", "error.type": "LookupError"}


def test_functions_are_bounded() -> None:
    numbers = Numbers()
    for number in range(MOST_FUNCTIONS + 50):
        numbers.hook(events.Miss(f"report {number}", ENTRY))
    assert len(numbers.all()["stampede_guard.calls"]) == MOST_FUNCTIONS + 1
    assert numbers.of("calls", function="other") == 50
