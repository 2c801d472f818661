"""Herds, from the lines that processes told."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.ops.fleet.herds import MOST_LANES, MOST_MARKS, HerdStory, herds
from stampede_guard.stores.fleet.stream import HERD_KINDS, Happening


def line(at: float, process: str, kind: str, flight: str = "", **detail: Any) -> Happening:
    if flight:
        detail["flight"] = flight
    return Happening(1000.0 + at, kind, process, "shop.quality", "#key", detail)


def computed(process: str, at: float = 0.0, *, callers: int = 3, seconds: float = 0.4) -> list[Happening]:
    flight = f"{process}:{at}"
    return [
        line(at, process, "asked", flight, what="foreground"),
        line(at + 0.01, process, "granted", flight, token=7),
        line(at + 0.01, process, "began", flight),
        line(at + 0.01 + seconds, process, "ended", flight, seconds=seconds),
        line(at + 0.02 + seconds, process, "published", flight, stored=True, token=7),
        line(at + 0.02 + seconds, process, "landed", flight, callers=callers, collapsed=callers - 1),
    ]


def waited(process: str, at: float = 0.0, *, callers: int = 2, until: float = 0.43) -> list[Happening]:
    flight = f"{process}:{at}"
    return [
        line(at, process, "asked", flight),
        line(at + 0.01, process, "waits", flight),
        line(until, process, "woken", flight, how="value"),
        line(until, process, "landed", flight, callers=callers, collapsed=callers),
    ]


def only(found: list[HerdStory]) -> HerdStory:
    (herd,) = found
    return herd


def texts(herd: HerdStory, process: str) -> list[str]:
    return [mark.text for lane in herd.lanes if lane.process == process for mark in lane.marks]


def test_one_expiry_has_a_lane_per_worker_and_says_what_it_saved() -> None:
    herd = only(herds([*computed("a"), *waited("b", 0.001), *waited("c", 0.002)]))
    assert (herd.function, herd.key, herd.began) == ("shop.quality", "#key", 1000.0)
    assert [lane.process for lane in herd.lanes] == ["a", "b", "c"]
    assert (herd.callers, herd.computations, herd.collapsed) == (7, 1, 6)
    assert math.isclose(herd.saved_seconds, 6 * 0.4)
    assert herd.stored and not herd.faults
    wait, compute = herd.lanes[0].spans
    assert (wait.kind, wait.began) == ("wait", 0.0) and compute.kind == "compute"
    assert compute.ended is not None and math.isclose(compute.ended - compute.began, 0.4)
    assert texts(herd, "a")[1] == "gets the lease, token 7"
    assert texts(herd, "b") == [
        "asks the store",
        "another worker computes: waits",
        "woken, with the value in the message",
        "2 callers served",
    ]


def test_the_next_expiry_of_a_key_is_another_herd() -> None:
    first, second = [*computed("a"), *waited("b")], [*computed("b", 2.0), *waited("a", 2.0, until=2.43)]
    newest, oldest = herds([*first, *second])
    assert (newest.began, oldest.began) == (1002.0, 1000.0)
    assert [lane.process for lane in newest.lanes] == ["b", "a"]
    assert newest.computations == oldest.computations == 1
    assert newest.id != oldest.id


def failed(process: str, at: float = 0.0, *, stored: bool = False) -> list[Happening]:
    lines = computed(process, at)
    lines[3] = line(at + 0.41, process, "ended", f"{process}:{at}", seconds=0.4, error="ZeroDivisionError")
    if not stored:
        lines[4] = line(at + 0.42, process, "gave back", f"{process}:{at}")
    return lines


def test_a_herd_ends_at_its_failure_and_says_what_was_raised() -> None:
    found = herds([*failed("a"), *failed("a", 0.9), *failed("b", 1.8)])
    assert [herd.computations for herd in found] == [1, 1, 1]
    assert {(herd.error, herd.stored, herd.outcome) for herd in found} == {
        ("ZeroDivisionError", False, "the computation raised ZeroDivisionError")
    }


def test_a_stored_error_is_no_stored_value() -> None:
    herd = only(herds([*failed("a", stored=True), *waited("b", 0.001)]))
    assert not herd.stored
    assert herd.outcome == "the computation raised ZeroDivisionError, and the stored error was served"
    woken = [line(0.0, "b", "asked", "1"), line(0.1, "b", "woken", "1", how="failure")]
    assert only(herds(woken)).outcome == "served the stored error"


def test_a_waiter_that_computes_after_a_failure_belongs_to_the_herd() -> None:
    """Its flight asked before the failure, and its value is the outcome."""
    second = computed("b", 0.002)
    later = [second[0], *(line(one.at - 1000 + 0.5, "b", one.kind, **dict(one.detail)) for one in second[1:])]
    herd = only(herds([*failed("a"), *later]))
    assert (herd.computations, herd.stored, herd.error) == (2, True, "")
    assert herd.outcome == "a value was stored"


def test_a_flight_that_asks_a_moment_after_the_publication_belongs_to_the_herd() -> None:
    late = [line(0.5, "c", "asked", "c:1"), line(0.51, "c", "landed", "c:1", callers=1)]
    assert len(only(herds([*computed("a"), *late])).lanes) == 2


def test_the_end_of_a_killed_holder_is_unknown_and_a_waiter_takes_over() -> None:
    lost = computed("a")[:3]
    taking = [
        line(0.002, "b", "asked", "b:1"),
        line(0.01, "b", "waits", "b:1"),
        line(0.2, "b", "suspects", "b:1"),
        line(0.5, "b", "granted", "b:1", token=8),
        line(0.5, "b", "taken over"),
        line(0.5, "b", "began", "b:1"),
        line(0.9, "b", "ended", "b:1", seconds=0.4),
        line(0.9, "b", "published", "b:1", stored=True, token=8),
        line(0.9, "b", "landed", "b:1", callers=2),
    ]
    herd = only(herds([*lost, *taking]))
    assert herd.faults == ("taken over",) and herd.computations == 2
    assert [span.ended for span in herd.lanes[0].spans] == [None, None]
    assert math.isclose(herd.compute_seconds, 0.4), "of those that have ended"
    assert "takes over: the holder has disappeared" in texts(herd, "b")


def test_a_fallback_is_a_span_of_its_own() -> None:
    slow = computed("a", seconds=3.0)
    beside = [
        *waited("b", until=2.0)[:2],
        line(1.0, "b", "timed out", what="wait_timeout"),
        line(1.0, "b", "began", "b:2", fallback=True),
        line(1.5, "b", "ended", "b:2", fallback=True, seconds=0.5),
        line(1.5, "b", "fallback", outcome="served"),
    ]
    herd = only(herds([*slow, *beside]))
    assert herd.faults == ("timed out", "fallback") and herd.computations == 2
    assert [(span.kind, span.ended is None) for span in herd.lanes[1].spans] == [
        ("wait", True),
        ("fallback", False),
    ]
    assert "wait_timeout passed" in texts(herd, "b")


def test_the_order_of_the_lines_does_not_matter() -> None:
    lines = [*computed("a"), *waited("b", 0.001), *computed("a", 5.0)]
    assert herds(reversed(lines)) == herds(lines)


def test_an_end_without_its_beginning_has_its_duration() -> None:
    lines = [one for one in computed("a") if one.kind != "began"]
    (_, compute) = only(herds(lines)).lanes[0].spans
    assert compute.ended is not None and math.isclose(compute.ended - compute.began, 0.4)


def test_an_entry_that_is_computed_all_the_time_is_cut_into_herds() -> None:
    lines = [line(second, "a", "asked", f"a:{second}") for second in range(2000)]
    found = herds(lines)
    assert len(found) == 7 and max(herd.seconds for herd in found) <= 300


def test_lanes_and_marks_are_bounded() -> None:
    crowd = [line(0.001 * number, f"process {number}", "asked", f"{number}") for number in range(100)]
    herd = only(herds([*crowd, *(line(0.1, "process 0", "renewed", "0") for _ in range(1000))]))
    assert (len(herd.lanes), herd.more_lanes) == (MOST_LANES, 100 - MOST_LANES)
    assert len(herd.lanes[0].marks) == MOST_MARKS
    many = [Happening(float(number), "asked", "p", "f", f"key {number}", {}) for number in range(700)]
    assert len(herds(many)) == 500 and herds(many)[0].key == "key 699"


def test_what_is_not_of_an_entry_is_ignored() -> None:
    away = Happening(1000.0, "away", "a", "", "", {})
    lease = Happening(1000.0, "lease won", "a", "election", "#e", {})
    assert herds([away, lease]) == []


words = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=9),
    st.lists(st.integers(), max_size=2),
)
details = st.dictionaries(
    st.sampled_from(
        ("flight", "token", "seconds", "callers", "collapsed", "error", "how", "what", "stored", "fallback")
    ),
    words,
)


@given(
    st.lists(
        st.builds(
            Happening,
            st.floats(0, 1e5),
            st.sampled_from(sorted(HERD_KINDS | {"fallback", "timed out", "<b>"})),
            st.sampled_from(("a", "b", "<script>")),
            st.just("f"),
            st.sampled_from(("", "k")),
            details,
        ),
        max_size=30,
    )
)
def test_whatever_other_programs_wrote_gives_herds(lines: list[Happening]) -> None:
    for herd in herds(lines):
        assert 0 <= herd.seconds <= 400 and herd.collapsed >= 0 and herd.saved_seconds >= 0
        for lane in herd.lanes:
            for span in lane.spans:
                assert math.isfinite(span.began) and (span.ended is None or span.ended >= span.began)
