"""Writes the states of a flight into docs/how-it-works.md, behind the hand-written part.

    python -m scripts.flight_states

`decide` is asked for every phase and event, with each kind of passengers and with each thing that a flight may know.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from stampede_guard.core import events as on
from stampede_guard.core.aboard import Aboard
from stampede_guard.core.asks import Answer, FailedRecently, Found, Granted, Held, Message, Uncacheable
from stampede_guard.core.commands import Keep
from stampede_guard.core.entry import Reading
from stampede_guard.core.flight import decide
from stampede_guard.core.outcome import FlightOutcome
from stampede_guard.core.states import (
    Asking,
    Computing,
    Delivering,
    FlightState,
    Phase,
    Publishing,
    Waiting,
)
from stampede_guard.policy import Policy

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-it-works.md"
MARK = "<!-- states: written by scripts/flight_states.py -->\n"

Transition = tuple[str, str, str, str]
"""From, event, to, command."""

POLICY = Policy()
READING = Reading(b"", 9, 1000, 0, 900)
GRANT, SLOT = Granted(7, "e"), Granted(7, "e", leased=False)
OUTCOMES = [
    FlightOutcome("value", b"", own=True),
    FlightOutcome("failure", b"", own=True),
    FlightOutcome("pass", b"", own=True, shared=False),
]
PHASES: list[Phase] = [
    Asking(1),
    Asking(2),
    Waiting(7),
    Computing(None),
    Computing(GRANT),
    Computing(GRANT, fenced=True),
    *(Publishing(GRANT, outcome, tries=tries) for outcome in OUTCOMES for tries in (1, 2)),
    *(Publishing(GRANT, outcome, fenced=True) for outcome in OUTCOMES),
    Delivering(),
    Delivering(serves=False),
]  # fmt: skip
ABOARD = [Aboard(), Aboard(1, 1, waits=True), Aboard(1, 0)]
ANSWERS: list[Answer] = [
    Found(READING),
    FailedRecently(b"", 9),
    GRANT,
    Uncacheable(SLOT),
    Held(7, suspect=False),
]
MESSAGES = [Message("value", 9, READING), Message("value", 9), Message("failure", 9), Message("again", 9)]


def _states() -> Iterator[FlightState]:
    for phase in PHASES:
        state = FlightState(phase)
        yield state
        yield state._replace(kind="early", serves_old=True)
        if phase in (Computing(None), Delivering()):
            yield state._replace(kind="bypassed")
        yield state._replace(overtakes=True)
        yield state._replace(newer_than=9)
        yield state._replace(lingers=True)
        yield state._replace(trusted_until=2.0)


def _events() -> Iterator[on.Event]:
    for aboard in ABOARD:
        for answer in ANSWERS:
            yield on.StoreAnswered(answer, aboard, 1.0, 0.0)
        for away in (False, True):
            yield on.StoreFailed(away, aboard, 1.0, 0.0)
        for message in (*MESSAGES, Message("value", 6, READING)):
            yield on.Heard(message, aboard)
        yield on.LookAgain(aboard)
        yield on.Delivered(aboard)
    for storable, away in itertools.product((False, True), repeat=2):
        yield on.ComputationEnded(b"", storable, away)
    yield from (on.ComputationFailed(b""), on.ComputationFailed(None), on.Abandoned())
    yield from (on.PublishAnswered(stored=True), on.PublishAnswered(stored=False), on.Crashed())


def _name(event: on.Event) -> str:
    match event:
        case on.StoreAnswered(answer):
            return type(answer).__name__
        case on.Heard(message):
            return f"Heard {message.kind}"
        case on.PublishAnswered(stored):
            return "stored" if stored else "refused"
        case _:
            return type(event).__name__


def transitions() -> set[Transition]:
    """All that `decide` may do, except to keep on with what is running."""
    found = set()
    for state, event in itertools.product(_states(), _events()):
        try:
            after, command = decide(state, event, POLICY)
        except AssertionError:
            continue  # the event does not fit the phase
        if not isinstance(command, Keep):
            start, end = type(state.phase).__name__, type(after.phase).__name__
            found.add((start, _name(event), end, type(command).__name__))
    return found


def diagram() -> str:
    """The states as a Mermaid diagram. Crashes are left out, because they lead from everywhere to `Landed`."""
    between: dict[tuple[str, str], set[str]] = defaultdict(set)
    for start, event, end, _ in transitions():
        if event != "Crashed":
            between[start, end].add(event)
    lines = [
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> Asking",
        "    [*] --> Computing: without the store",
    ]
    for (start, end), events in sorted(between.items()):
        lines.append(f"    {start} --> {end}: {', '.join(sorted(events))}")
    return "\n".join([*lines, "    Landed --> [*]", "```\n"])


def table() -> str:
    lines = ["| state | event | next state | command |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(transition)} |" for transition in sorted(transitions())]
    return "\n".join(lines) + "\n"


def main() -> None:
    before = PAGE.read_text("utf-8").partition(MARK)[0]
    PAGE.write_text(f"{before}{MARK}\n{diagram()}\n{table()}", "utf-8")


if __name__ == "__main__":
    main()
