"""The trace of a computation travels with the wake-up, to the processes that understand it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stampede_guard.core.asks import traceparent
from stampede_guard.core.scripts import Message
from stampede_guard.stores.connections.inboxname import INBOXES, inbox_name
from stampede_guard.stores.connections.wire import parse_message, value_bytes
from tests.stores.conftest import Backend
from tests.support.asking import fail, grant, held, publish
from tests.support.twins import TRACE


@pytest.mark.parametrize("kind", ["value", "failure"])
async def test_a_waiter_receives_the_trace_of_the_computation(backend: Backend, name: str, kind: str) -> None:
    (one, _), (other, heard) = backend.open(), backend.open()
    granted = await grant(one, name)
    await held(other, name)
    assert await (publish if kind == "value" else fail)(one, name, granted, trace=TRACE)
    message = await heard.message(name)
    assert (message.kind, message.trace) == (kind, TRACE)


async def test_a_refused_outcome_has_no_trace_because_it_serves_no_waiter(
    backend: Backend, name: str
) -> None:
    (one, _), (other, heard) = backend.open(), backend.open()
    granted = await grant(one, name)
    await backend.evict(name, "record")
    await held(other, name)
    assert not await publish(one, name, granted, trace=TRACE)
    assert await heard.message(name) == Message("again", granted.token)


def test_only_an_inbox_of_this_version_begins_with_a_letter_that_is_no_digit() -> None:
    # The scripts look for this letter: older versions treat a message with a trace as damaged.
    for namespace in ("", "shop"):
        fresh = inbox_name(namespace).removeprefix(INBOXES).partition(":")[0]
        assert fresh[0] == "t" and len(fresh) == 32 and inbox_name(namespace) != inbox_name(namespace)


def test_a_message_with_a_trace_and_one_of_an_older_version_are_understood() -> None:
    rest = b"\n7\n1\nk" + value_bytes(b"body", token=7, total_ms=9, stale_ms=4)
    old, new = parse_message(b"value" + rest), parse_message(b"value " + TRACE.encode() + rest)
    assert old is not None and new is not None
    assert (old[1].trace, new[1].trace) == ("", TRACE)
    assert old[1] == new[1]._replace(trace="")


@given(text=st.binary(max_size=80).filter(lambda text: b"\n" not in text))
@example(TRACE.encode().upper())
@example(TRACE.encode() + b"0")
@example(f"00-{'0' * 32}-{'b' * 16}-01".encode())
@example(f"00-{'a' * 32}-{'0' * 16}-01".encode())
@example(f"ff-{'a' * 32}-{'b' * 16}-01".encode())
@example(b"\xef\xbc\x90" + TRACE.encode()[3:])
def test_anything_else_in_its_place_is_ignored_and_the_message_counts(text: bytes) -> None:
    parsed = parse_message(b"again " + text + b"\n7\n1\nk")
    assert parsed is not None and parsed[0] == "k"
    trace = parsed[1].trace
    assert trace == "" or (trace.encode() == text and traceparent(trace) == trace)


@pytest.mark.parametrize("text", [None, 7, b"00", "", TRACE + "\n", f" {TRACE}"])
def test_what_a_hook_returns_is_sent_only_if_it_is_a_traceparent(text: object) -> None:
    assert traceparent(text) == ""
