from __future__ import annotations

import asyncio
import weakref
from typing import Any

import pytest

from stampede_guard.errors import ComputeFailed
from stampede_guard.values.failures import decode_failure, encode_failure
from stampede_guard.values.ownerrors import OWN_ERRORS, OwnErrors
from tests.support.clock import Clock


class Loop(asyncio.AbstractEventLoop):
    """Calls back when told to."""

    def __init__(self) -> None:
        self.later: list[Any] = []

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        self.later.append(lambda: callback(*args))

    def pass_time(self) -> None:
        later, self.later = self.later, []
        for callback in later:
            callback()


class Held:
    pass


class Failed(Exception):
    pass


def raised() -> Failed:
    """Its traceback holds the variables of this function."""
    held = Held()
    try:
        try:
            raise ValueError(held)
        except ValueError as cause:
            raise Failed([1], "https://x.org/?token=s3cret-value") from cause
    except Failed as error:
        error.add_note("a note")
        error.held = weakref.ref(held)  # type: ignore[attr-defined]
        return error


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_an_error_is_kept_as_a_copy_without_traceback_and_cause(clock: Clock) -> None:
    own, error = OwnErrors(), raised()
    held = error.held  # type: ignore[attr-defined]
    own.keep("entry", "id", error, 1, clock=clock, loop=Loop())
    kept = own.recall("entry", "id")
    assert type(kept) is Failed and kept.args == error.args and kept.__notes__ == ["a note"]
    assert kept is not error and kept.args[0] is not error.args[0]
    assert kept.__traceback__ is None and kept.__cause__ is None and kept.__context__ is None
    del error
    assert held() is None


def test_it_is_found_only_as_the_failure_of_its_own_entry(clock: Clock) -> None:
    own = OwnErrors()
    own.keep("entry", "id", Failed(), 1, clock=clock, loop=Loop())
    assert own.recall("other", "id") is None and own.recall("entry", "other") is None


def test_it_is_forgotten_a_little_after_its_record(clock: Clock) -> None:
    own, loop = OwnErrors(), Loop()
    own.keep("entry", "id", Failed(), 10, clock=clock, loop=loop)
    clock.advance(10)
    assert own.recall("entry", "id") is not None  # the store may be a little slower
    clock.advance(10)
    loop.pass_time()
    assert own.recall("entry", "id") is None and len(own) == 0


def test_while_a_tests_clock_stands_still_nothing_is_forgotten(clock: Clock) -> None:
    own, loop = OwnErrors(), Loop()
    own.keep("entry", "id", Failed(), 10, clock=clock, loop=loop)
    loop.pass_time()
    assert own.recall("entry", "id") is not None


def test_their_number_is_bounded_and_the_oldest_go_first(clock: Clock) -> None:
    own = OwnErrors(most=3)
    for number in range(10):
        own.keep("entry", f"{number}", Failed(number), 10, clock=clock, loop=Loop())
    assert [own.recall("entry", f"{number}") is not None for number in range(10)] == [False] * 7 + [True] * 3


def test_errors_of_closed_event_loops_go_when_another_is_kept(clock: Clock) -> None:
    own = OwnErrors()
    own.keep("entry", "first", Failed(), 10, clock=clock, loop=Loop())
    clock.advance(60)
    own.keep("entry", "second", Failed(), 10, clock=clock, loop=Loop())
    assert len(own) == 1


def test_however_many_errors_there_are_the_event_loop_has_one_timer_for_them(clock: Clock) -> None:
    own, loop = OwnErrors(most=3), Loop()
    for number in range(100):
        own.keep("entry", f"{number}", Failed(), 3600, clock=clock, loop=loop)
    assert len(loop.later) == 1
    loop.pass_time()
    assert len(own) == 3 and len(loop.later) == 1
    clock.advance(7200)
    loop.pass_time()
    assert len(own) == 0 and not loop.later
    own.keep("entry", "again", Failed(), 1, clock=clock, loop=loop)
    assert len(loop.later) == 1


def test_a_record_of_this_process_leads_to_the_error_itself(clock: Clock) -> None:
    error = Failed(object(), "https://x.org/?token=s3cret-value")
    id = OWN_ERRORS.new_id()
    data = encode_failure(error, id=id)
    assert data is not None and b"s3cret" not in data
    OWN_ERRORS.keep("entry", id, error, 10, clock=clock, loop=Loop())
    assert decode_failure(data, entry="entry").args == error.args
    # Under another entry's name, as somebody who can write to the store may copy it.
    assert isinstance(decode_failure(data, entry="other"), ComputeFailed)
