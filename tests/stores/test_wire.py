"""Bytes from the server: what we wrote is read back, and nothing that anybody else wrote makes us fail."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redis.crc import key_slot

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Denied, FailedRecently, Found, Granted, Held, Message
from stampede_guard.errors import StoreRefused
from stampede_guard.stores.connections.calls import Script, pack_command
from stampede_guard.stores.connections.wire import (
    HEADER,
    MOST_TOOK_MS,
    entry_keys,
    parse_answer,
    parse_message,
    parse_value,
    value_bytes,
    value_key,
)
from tests.stores import layout1
from tests.support.resp import CommandCutter

TOKENS = st.integers(0, 2**53 - 1)
LIFETIMES = st.integers(0, 10**12 - 1)
NAMES = st.text(st.characters())
MAGICS = [b"SG1", b"SG2", b"SG3"]
REPLIES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.integers()
    | st.binary(max_size=60)
    | st.sampled_from([b"found", b"failed", b"granted", b"held"]),
    lambda inner: st.lists(inner, max_size=4),
)


def message_bytes(kind: bytes, token: int, name: str, payload: bytes) -> bytes:
    """As `lua/common.lua` writes it."""
    encoded = name.encode("utf-8", "surrogatepass")
    return b"%b\n%d\n%d\n%b%b" % (kind, token, len(encoded), encoded, payload)


class TestValues:
    @given(
        body=st.binary(),
        token=TOKENS,
        total_ms=LIFETIMES,
        stale_ms=LIFETIMES,
        took_ms=st.integers(0, MOST_TOOK_MS),
        remaining_ms=st.integers(-1),
    )
    def test_what_was_written_is_read_back(
        self, body: bytes, token: int, total_ms: int, stale_ms: int, took_ms: int, remaining_ms: int
    ) -> None:
        stored = value_bytes(body, token=token, total_ms=total_ms, stale_ms=stale_ms, took_ms=took_ms)
        assert len(stored) == HEADER + len(body)
        expected = Reading(body, token, total_ms, stale_ms, remaining_ms, took_ms)
        assert parse_value(stored, remaining_ms) == expected

    @pytest.mark.parametrize("took_ms, kept", [(-1, 0), (10**8, MOST_TOOK_MS), (10**30, MOST_TOOK_MS)])
    def test_a_time_taken_that_has_no_room_is_clamped(self, took_ms: int, kept: int) -> None:
        stored = value_bytes(b"body", token=1, total_ms=2, stale_ms=3, took_ms=took_ms)
        assert parse_value(stored, 5) == Reading(b"body", 1, 2, 3, 5, kept)

    @given(body=st.binary(), token=TOKENS, total_ms=LIFETIMES, stale_ms=LIFETIMES)
    def test_a_value_of_the_layout_before_is_read_and_took_nobody_knows_how_long(
        self, body: bytes, token: int, total_ms: int, stale_ms: int
    ) -> None:
        stored = layout1.value_bytes(body, token=token, total_ms=total_ms, stale_ms=stale_ms)
        assert parse_value(stored, 5) == Reading(body, token, total_ms, stale_ms, 5, 0)

    @given(body=st.binary(), token=TOKENS, lifetime=LIFETIMES)
    def test_to_the_layout_before_a_value_of_this_one_is_nothing(
        self, body: bytes, token: int, lifetime: int
    ) -> None:
        stored = value_bytes(body, token=token, total_ms=lifetime, stale_ms=0)
        assert layout1.parse_value(stored, 5) is None

    @given(
        stored=st.none() | st.binary() | st.builds(bytes.__add__, st.sampled_from(MAGICS), st.binary()),
    )
    @example(b"SG1" + b"1" * 39)
    @example(b"SG2" + b"1" * 47)
    @example(b"SG2" + b"1" * 40 + b"       1" + b"body")
    @example(b"SG3" + b"1" * 60)
    @example(b"SG1" + b"1" * 16 + b" " * 24 + b"body")
    @example(b"SG1" + b"_1" * 20)
    @example(b"SG1" + "٣".encode() * 20)
    def test_anything_else_is_nothing_and_never_an_error(self, stored: bytes | None) -> None:
        reading = parse_value(stored, 5)
        assert reading is None or (stored is not None and stored[3:43].isdigit())
        assert reading is None or (stored is not None and stored[43:].endswith(reading.body))

    def test_a_header_without_its_last_byte_is_nothing(self) -> None:
        whole = value_bytes(b"", token=1, total_ms=2, stale_ms=3)
        assert parse_value(whole, 5) is not None
        assert parse_value(whole[:-1], 5) is None


class TestMessages:
    @given(token=TOKENS, name=NAMES, body=st.binary())
    def test_what_the_scripts_write_is_understood(self, token: int, name: str, body: bytes) -> None:
        again = message_bytes(b"again", token, name, b"")
        assert parse_message(again) == (name, Message("again", token))
        failure = message_bytes(b"failure", token, name, body)
        assert parse_message(failure) == (name, Message("failure", token, body=body))
        value = message_bytes(b"value", token, name, value_bytes(body, token=token, total_ms=9, stale_ms=4))
        assert parse_message(value) == (name, Message("value", token, reading=Reading(body, token, 9, 4, 9)))
        announced = message_bytes(b"value", token, name, b"")
        assert parse_message(announced) == (name, Message("value", token))

    @given(data=st.binary() | st.lists(st.binary(max_size=5)).map(b"\n".join))
    @example(b"value\n1\n-1\nname")
    @example(b"again\n1\n1\n\xff")
    @example(b"again\n" + b"9" * 5_000 + b"\n0\n")
    def test_anything_else_is_nothing_and_never_an_error(self, data: bytes) -> None:
        found = parse_message(data)
        assert found is None or isinstance(found[1], Message)


class TestAnswers:
    def test_every_answer_of_the_scripts_is_understood(self) -> None:
        stored = value_bytes(b"body", token=7, total_ms=9, stale_ms=4)
        assert parse_answer([b"found", stored, 8]) == Found(Reading(b"body", 7, 9, 4, 8))
        assert parse_answer([b"failed", b"why", b"7", 900]) == FailedRecently(b"why", 7)
        assert parse_answer([b"granted", b"7", b"epoch"]) == Granted(7, "epoch")
        held = parse_answer([b"held", b"7", 1, b"9"])
        assert isinstance(held, Held)
        assert (held.fence, held.suspect, held.last, held.first) == (7, True, 9, False)
        held = parse_answer([b"held", b"7", 2, b"9"])
        assert isinstance(held, Held)
        assert (held.suspect, held.first) == (True, True)
        assert parse_answer([b"denied"]) == Denied()

    @given(reply=REPLIES)
    @example([b"granted", b"x", b"epoch"])
    @example([b"granted", b"1", b"\xff"])
    @example([b"found", b"SG1", 5])
    def test_any_other_is_refused_and_nothing_worse(self, reply: Any) -> None:
        with contextlib.suppress(StoreRefused):
            parse_answer(reply)


class TestNames:
    @given(name=NAMES.map(lambda name: f"namespace:{name}"))
    def test_all_keys_of_an_entry_are_in_one_slot(self, name: str) -> None:
        keys = entry_keys(name)
        assert len(set(keys)) == 6 and keys[0] == value_key(name)
        assert len({key_slot(key) for key in keys}) == 1

    @given(names=st.lists(NAMES, unique=True, max_size=5))
    def test_no_two_entries_share_a_key(self, names: list[str]) -> None:
        keys = [key for name in names for key in entry_keys(name)]
        assert len(set(keys)) == len(keys)


class TestCommands:
    @given(parts=st.lists(st.binary(), min_size=1, max_size=5))
    def test_what_is_packed_is_one_command_with_these_parts(self, parts: list[bytes]) -> None:
        (command,) = CommandCutter().feed(pack_command(parts))
        assert command.parts == tuple(parts)

    def test_a_script_goes_by_its_digest_or_whole(self) -> None:
        script = Script("release")
        (short,) = CommandCutter().feed(script.pack((b"k1", b"k2"), [b"a"], whole=False))
        (whole,) = CommandCutter().feed(script.pack((b"k1", b"k2"), [b"a"], whole=True))
        assert short.parts == (b"EVALSHA", script.digest, b"2", b"k1", b"k2", b"a")
        assert whole.parts == (b"EVAL", script.text, b"2", b"k1", b"k2", b"a")
