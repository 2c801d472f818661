"""The laws of large bodies, judged by what the clients saw and which calls the application had.

1. A client gets exactly the wanted bytes of one call, or the beginning of them and then a visible break.
2. A call that sent fewer bytes than announced is never a complete response.
3. A break needs a reason: the call broke, the store failed or dropped something, or a process ended.
4. After a purge returned, no new request is served by an older call, unless its process was cut off from the store.
5. Where nothing breaks, one call serves all.
6. A response is served stale only as long as its fields allow, and then it replaces errors.
7. Everybody ends, and nothing is left, nor are the pieces of a body that broke off, while a process lives.
"""

from __future__ import annotations

import itertools
import re
import time

from tests.http.large.fuzz.drawing import PIECE, SMALL, Answer, Case, drawn
from tests.http.large.fuzz.scenario import Call, Fleet, Visitor, body_of, play

__all__ = ["fuzz_large", "judged"]

UNCOUNTED = 1.0
"""Seconds from the end of a call until its response is stored."""


def judged(case: Case) -> tuple[Fleet, list[str]]:
    try:
        fleet = play(case)
    except Exception as error:
        raise AssertionError(f"seed {case.seed}: {error!r}") from error
    wrong = list(fleet.journal.problems)
    for visitor in fleet.visitors:
        wrong += [f"visitor {visitor.index} {visitor.action}: {what}" for what in _of(fleet, visitor)]
    if case.calm and case.max_age > 100:
        for path in ("/a", "/b"):
            gets = [call.number for call in fleet.calls if (call.path, call.method) == (path, "GET")]
            if len(gets) > 1 and _is_in_time(case, case.answer(path, 0)):
                wrong.append(f"calls {gets} for {path}, where one is enough")
    whole = sum(call.outcome == "whole" and call.answer.may_be_stored for call in fleet.calls)
    if case.weather.is_kind(set()) and not fleet.closed and len(fleet.bodies) > whole:
        wrong.append(f"pieces of {len(fleet.bodies)} bodies are stored, but {whole} were whole")
    return fleet, wrong


def _is_in_time(case: Case, answer: Answer) -> bool:
    """Without a length, the store must take all pieces within `stream_timeout`: two commands each, and two ways."""
    return answer.announced or 4 * (answer.size / PIECE + 1) * max(case.weather.slow, case.weather.grid) < 2.0


def fuzz_large(first: int, *, seconds: float) -> list[str]:
    """The violations of as many seeds as fit into these seconds."""
    found: list[str] = []
    ends = time.monotonic() + seconds
    for seed in itertools.count(first):
        if time.monotonic() >= ends:
            break
        found += [f"seed {seed}: {wrong}" for wrong in judged(drawn(seed))[1]]
    return found


def _of(fleet: Fleet, visitor: Visitor) -> list[str]:
    if not visitor.messages:
        return (
            [] if visitor.left or _has_reason(fleet, None, visitor) else [f"no response: {visitor.error!r}"]
        )
    fields, status = visitor.fields, visitor.messages[0]["status"]
    if status in (503, 504):
        if not _has_reason(fleet, None, visitor):
            return [f"{status} for no reason"]
        return [f"{status}, but call {call.number} was stored" for call in _replacing(fleet, visitor)]
    if status == 416:
        return []
    # A 304 has the number in its ETag alone.
    call = fleet.calls[int(fields["etag"].strip('"')) - 1]
    found = _of_content(visitor, call, status, fields)
    if not visitor.is_complete and not visitor.left and not _has_reason(fleet, call, visitor):
        found.append(f"broken off for no reason: {visitor.error!r}, call {call}")
    is_instead = re.search("detail=(stale-if-error|timeout)", fields.get("cache-status", ""))
    longest = fleet.case.max_age + fleet.case.stale[bool(is_instead)]
    if visitor.began.time - call.ended.time > longest + UNCOUNTED:
        found.append(f"served by call {call.number}, which ended at {call.ended}")
    process = fleet.case.processes[visitor.action.process]
    was_away = any(re.search(rf" {process}: +away$", line) for line in fleet.journal.lines)
    for began, done, path, answer in () if was_away else fleet.purges:
        if (path, answer) == (call.path, "done") and call.began < began and done <= visitor.began:
            found.append(f"served by call {call.number}, from before a purge at {began}")
    return found


def _of_content(visitor: Visitor, call: Call, status: int, fields: dict[str, str]) -> list[str]:
    if call.path != visitor.action.path:
        return ["the response of another URL"]
    body, whole = visitor.body, body_of(call.number, max(call.answer.size, call.answer.sends))
    if visitor.action.kind == "head" or status == 304:
        if status == 304 and dict(visitor.action.asked).get("if-none-match") != fields["etag"]:
            return ["304 for another version"]
        return [f"a body of {len(body)} bytes where none is allowed"] if body else []
    first, length = 0, call.answer.size
    if status == 206:
        told = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", fields["content-range"])
        assert told is not None
        first, length = int(told[1]), int(told[2]) - int(told[1]) + 1
        if int(told[3]) != call.answer.size or not _is_wanted(visitor, first, length, int(told[3])):
            return [f"not the wanted range: {fields['content-range']}"]
    if "content-length" in fields and int(fields["content-length"]) != length:
        return [f"Content-Length: {fields['content-length']}, not {length}"]
    if body != whole[first : first + len(body)]:
        return ["wrong bytes"]
    if visitor.is_complete:
        if len(body) != length and not (
            call.answer.breaks and len(body) == call.answer.sends and _is_own(fields)
        ):
            return [f"{len(body)} bytes as a whole of {length}"]
    return []


def _is_own(fields: dict[str, str]) -> bool:
    """From its own call, which a server would break off here as without a cache."""
    told = fields.get("cache-status", "")
    return "hit" not in told and "collapsed" not in told


def _is_wanted(visitor: Visitor, first: int, length: int, size: int) -> bool:
    begin, _, end = dict(visitor.action.asked)["range"].removeprefix("bytes=").partition("-")
    if not begin:
        return first == max(0, size - int(end)) and first + length == size
    return first == int(begin) and first + length == min(size, int(end or size) + 1)


def _replacing(fleet: Fleet, visitor: Visitor) -> list[Call]:
    """The calls whose response must have been served in place of an error."""
    case, action = fleet.case, visitor.action
    calls = [call for call in fleet.calls if call.path == action.path and call.method == "GET"]
    alone = action.kind == "get" and not action.asked and not fleet.purges and not fleet.dropped
    if (
        not alone
        or fleet.closed
        or not case.weather.is_kind(set())
        or len({call.began.time for call in calls}) != len(calls)
    ):
        return []
    whole = [call for call in calls if _is_stored_at_once(call) and call.ended < visitor.began]
    after = [call for call in calls if whole and call.number > whole[-1].number]
    age = visitor.began.time - whole[-1].began.time if whole else 0.0
    # It waits for the answer that fails, and the response becomes older meanwhile.
    is_servable = age < case.max_age + case.stale[1] - 1.0 and case.stale[1] > 0
    only_failed = all(call.answer.fails for call in after)
    # After one that was too large, requests go past the cache for a while.
    storable = all(call.answer.fails or call.answer.may_be_stored for call in calls)
    return whole[-1:] if whole and is_servable and only_failed and storable else []


def _is_stored_at_once(call: Call) -> bool:
    answer = call.answer
    return (
        call.outcome == "whole"
        and answer.may_be_stored
        and answer.size > SMALL
        and not (answer.stalls or answer.pace)
    )


def _has_reason(fleet: Fleet, call: Call | None, visitor: Visitor) -> bool:
    calls = [call] if call is not None else [c for c in fleet.calls if c.path == visitor.action.path]
    return (
        not fleet.case.weather.is_kind(set())
        or fleet.dropped
        or fleet.closed
        or any(one.answer.breaks or one.answer.stalls > 1.0 for one in calls)
    )
