"""The parts below a session: deadlines, errors told apart, and replies cut out of any stream of bytes."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import exceptions
from redis._parsers.base import BaseParser

from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable
from stampede_guard.stores.connections.patience import more_time, patiently
from stampede_guard.stores.connections.pipe import Pipe
from stampede_guard.stores.connections.replies import is_not_serving, may_be_elsewhere, store_error
from tests.support.heap import collect
from tests.support.listener import PATIENCE


class TestErrorsToldApart:
    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            (exceptions.AuthenticationError("invalid username-password pair"), StoreRefused),
            (exceptions.AuthorizationError(), StoreRefused),
            (exceptions.NoPermissionError("this user has no permissions"), StoreRefused),
            (exceptions.ResponseError("WRONGTYPE Operation against a key"), StoreRefused),
            (exceptions.OutOfMemoryError("command not allowed"), StoreRefused),
            (exceptions.BusyLoadingError(), StoreUnavailable),
            (exceptions.ReadOnlyError(), StoreRefused),
            (exceptions.MasterDownError("down"), StoreUnavailable),
            (exceptions.ClusterDownError("down"), StoreUnavailable),
            (exceptions.TryAgainError(), StoreUnavailable),
            (exceptions.ResponseError("BUSY Redis is busy running a script."), StoreUnavailable),
            (exceptions.ConnectionError("refused"), StoreUnavailable),
            (exceptions.MaxConnectionsError("Too many connections"), StoreUnavailable),
            (exceptions.TimeoutError("slow"), StoreUnavailable),
            (TimeoutError(), StoreUnavailable),
            (ConnectionResetError(104, "reset"), StoreUnavailable),
            (LookupError("no secret"), StoreUnavailable),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
    )
    def test_a_refusal_is_not_an_absence(self, error: BaseException, kind: type[StoreError]) -> None:
        found = store_error(error)
        assert type(found) is kind and str(found)

    def test_every_error_class_that_redis_py_reads_from_a_reply_has_a_place(self) -> None:
        for code, kind in BaseParser.EXCEPTION_CLASSES.items():
            error = BaseParser.parse_error(f"{code} 1 127.0.0.1:1")
            assert isinstance(store_error(error), StoreError), kind
        replica = BaseParser.parse_error("READONLY You can't write against a read only replica.")
        assert may_be_elsewhere(replica) and not is_not_serving(replica)
        assert is_not_serving(BaseParser.parse_error("BUSY Redis is busy running a script."))
        assert not is_not_serving(BaseParser.parse_error("BUSYGROUP Consumer Group name already exists"))


class TestPatience:
    def test_in_time_there_is_one_moment_for_the_reader(self) -> None:
        assert 0 < more_time(1.0, late=0.0, spared=False) < 0.2
        assert more_time(1.0, late=0.0, spared=True) == 0

    def test_after_a_long_block_all_of_the_time_is_given_again(self) -> None:
        assert more_time(1.0, late=0.6, spared=False) == more_time(1.0, late=9.0, spared=True) == 1.0

    async def test_what_takes_too_long_is_a_time_out(self) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(PATIENCE), patiently(0.01):
                await asyncio.Event().wait()

    async def test_what_is_done_during_a_block_is_no_time_out(self) -> None:
        loop = asyncio.get_running_loop()
        async with patiently(0.05):
            for _ in range(3):
                done = loop.create_future()
                loop.call_soon(time.sleep, 0.2)
                loop.call_soon(done.set_result, None)
                await done

    async def test_it_passes_on_what_goes_wrong_inside_and_cancellation_from_outside(self) -> None:
        with pytest.raises(LookupError):
            async with patiently(PATIENCE):
                raise LookupError

        async def wait() -> None:
            async with patiently(PATIENCE):
                await asyncio.Event().wait()

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def test_an_event_loop_that_is_dropped_in_the_middle_leaves_no_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        collect()  # what other tests left behind
        told: list[Any] = []
        monkeypatch.setattr("sys.unraisablehook", told.append)

        async def wait(deadline: patiently) -> None:
            async with deadline:
                await asyncio.get_running_loop().create_future()

        async def begin() -> None:
            # As in an event loop that keeps no account of its generators. `run_until_complete` restores its own hooks.
            sys.set_asyncgen_hooks(None, None)
            # The garbage collector ends what was made earlier first.
            task = asyncio.ensure_future(wait(patiently(PATIENCE)))
            task.itself = task  # type: ignore[attr-defined]
            await asyncio.sleep(0)

        loop = asyncio.new_event_loop()
        loop.run_until_complete(begin())
        loop.close()
        del loop
        collect()
        assert [str(one.exc_value) for one in told] == []


class FakeTransport:
    def __init__(self) -> None:
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        raise AssertionError("nothing is written in these tests")


class Heard:
    """A pipe, and what came out of it."""

    def __init__(self, on_reply: Callable[[Any], None] | None = None) -> None:
        self.replies: list[Any] = []
        self.ends: list[Exception] = []
        self.parts = 0
        self.transport = FakeTransport()
        self.pipe = Pipe(
            self.transport,
            BaseParser.parse_error,
            on_reply=on_reply or self.replies.append,
            on_end=self._ended,
            on_ready=lambda: None,
            progress=self,  # type: ignore[arg-type]
        )

    def part_received(self) -> None:
        self.parts += 1

    def _ended(self, error: Exception) -> None:
        self.ends.append(error)
        self.transport.closing = True

    def feed(self, data: bytes, *, cuts: list[int]) -> None:
        places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        for start, end in itertools.pairwise(places):
            if not self.transport.closing:
                self.pipe.data_received(data[start:end])


class TestPipe:
    @given(cuts=st.lists(st.integers(0, 200), max_size=12))
    def test_replies_are_the_same_however_the_bytes_are_cut(self, cuts: list[int]) -> None:
        heard = Heard()
        heard.feed(b"$3\r\nabc\r\n*3\r\n:1\r\n$-1\r\n$4\r\na\r\nb\r\n-NOSCRIPT none\r\n:7\r\n", cuts=cuts)
        assert heard.replies[0:2] == [b"abc", [1, None, b"a\r\nb"]]
        assert isinstance(heard.replies[2], exceptions.NoScriptError)
        assert heard.replies[3:] == [7] and heard.ends == []

    def test_parts_of_a_reply_are_progress_and_whole_replies_are_none(self) -> None:
        heard = Heard()
        heard.feed(b":1\r\n:2\r\n", cuts=[4])
        assert heard.parts == 0
        heard.feed(b":1\r\n$6\r\nabcdef\r\n:2\r\n", cuts=[10, 12])
        assert heard.parts == 4, "after the first part, with the second and after it, with the third"

    @given(data=st.binary(), cuts=st.lists(st.integers(0, 200), max_size=5))
    def test_no_bytes_make_it_fail(self, data: bytes, cuts: list[int]) -> None:
        heard = Heard()
        heard.feed(data, cuts=cuts)
        assert len(heard.ends) <= 1

    @pytest.mark.parametrize(
        "reply", [b"-LOADING Redis is loading\r\n", b"-NOAUTH Authentication required.\r\n"]
    )
    def test_a_server_that_is_no_use_ends_the_connection(self, reply: bytes) -> None:
        heard = Heard()
        heard.feed(b":1\r\n" + reply + b":2\r\n", cuts=[])
        assert heard.replies == [1] and len(heard.ends) == 1

    def test_nothing_comes_after_the_connection_was_given_up(self) -> None:
        def give_up(_: Any) -> None:
            heard.transport.closing = True
            seen.append(_)

        seen: list[Any] = []
        heard = Heard(give_up)
        heard.feed(b":1\r\n:2\r\n:3\r\n", cuts=[])
        assert seen == [1]

    def test_a_connection_that_ends_in_silence_ends_with_an_error(self) -> None:
        heard = Heard()
        heard.pipe.connection_lost(None)
        assert isinstance(heard.ends[0], ConnectionResetError)
