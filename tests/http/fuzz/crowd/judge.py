"""The laws of a crowd before a shared cache, judged by what its clients got and which calls the application had.

1. A client gets the response of one call, byte by byte, or the beginning of it and then a visible break.
2. Nobody gets what a call made for one client alone, nor the rest of a call that broke, as if it were whole.
3. A break, an error or a status of the cache's own has a reason: the call, the store, or the client itself.
4. Nothing is served after its lifetime, unless its call, its client and an error allow that together.
5. Nothing from before an invalidation that returned is served after it, except from `l1_ttl` in other processes.
6. A client that leaves costs the others nothing: where nothing breaks, one call serves all.
7. Everybody ends in time, and nothing is left.
"""

from __future__ import annotations

import itertools
import time

from tests.http.fuzz.crowd.drawing import Case, drawn
from tests.http.fuzz.crowd.scenario import Boom, Call, Crowd, Visitor, body_of, play

__all__ = ["judged", "judged_crowds"]

PATIENCE = 15.0
"""Seconds that a client may wait where nothing hangs."""
SLACK = 1.5
"""Seconds that a bad way to the store may take."""
LATELY = 5.0
"""Seconds for which a failure may still be remembered."""


def judged(case: Case) -> tuple[Crowd, list[str]]:
    try:
        crowd = play(case)
    except Exception as error:
        raise AssertionError(f"seed {case.seed}: {error!r}") from error
    wrong = list(crowd.journal.problems)
    for visitor in crowd.visitors:
        if visitor.action.kind != "put":
            wrong += [f"visitor {visitor.index} {visitor.action}: {what}" for what in _of(crowd, visitor)]
    for path in case.rules:
        wrong += _of_costs(crowd, path)
    if case.weather.is_kind(set()) and not (case.weather.usual or case.weather.slow):
        # With ways of some length, nobody knows who waits already.
        wrong += [f"nobody may stop {call}" for call in crowd.calls if _was_wanted(crowd, call)]
    return crowd, wrong


def judged_crowds(first: int, *, seconds: float) -> list[str]:
    """The violations of as many seeds as fit into these seconds."""
    found: list[str] = []
    ends = time.monotonic() + seconds
    for seed in itertools.count(first):
        if time.monotonic() >= ends:
            break
        found += [f"seed {seed}: {wrong}" for wrong in judged(drawn(seed))[1]]
    return found


def _of(crowd: Crowd, visitor: Visitor) -> list[str]:
    calls = [call for call in crowd.calls if call.path == visitor.action.path]
    found = _of_waiting(crowd, visitor, calls) + _of_error(crowd, visitor, calls)
    if not visitor.messages:
        own = any(call.visitor == visitor.index and call.answer.fault == "returns early" for call in calls)
        return found if visitor.left or visitor.error or own else [*found, "no response"]
    status, number = visitor.messages[0]["status"], _number(visitor)
    if not number:
        return found + _of_own_status(crowd, visitor, status, calls)
    call = crowd.calls[number - 1]
    found += _of_content(crowd, visitor, call, status)
    if call.visitor != visitor.index:
        found += _of_sharing(visitor, call) + _of_time(crowd, visitor, call, calls)
    return found + _of_changes(crowd, visitor, call)


def _number(visitor: Visitor) -> int:
    """Of the call whose fields it got; 0 = of none."""
    control = visitor.fields.get("cache-control", "") if visitor.messages else ""
    return int(control.partition("number=")[2].partition(",")[0] or 0)


def _of_waiting(crowd: Crowd, visitor: Visitor, calls: list[Call]) -> list[str]:
    if visitor.ended is None or any(call.answer.fault.startswith("hangs") for call in calls):
        return []
    waited = visitor.ended.time - visitor.began.time - visitor.action.reads * len(visitor.messages)
    kind = crowd.case.weather.is_kind(set())
    return [f"waited {waited:.1f} s"] if kind and waited > PATIENCE else []


def _of_error(crowd: Crowd, visitor: Visitor, calls: list[Call]) -> list[str]:
    error, action = visitor.error, visitor.action
    if error is None:
        return []
    if visitor.left and action.how != "told" and not isinstance(error, Boom):
        return []
    if isinstance(error, Boom):
        call = crowd.calls[int(str(error)) - 1]
        return [] if call in calls else [f"the error of another path: {call}"]
    if isinstance(error, RuntimeError) and any(not call.answer.is_sound for call in calls):
        return []
    heard = any("heard" in call.outcome or "Cancelled" in call.outcome for call in calls)
    return [] if isinstance(error, RuntimeError) and heard else [f"{error!r} for no reason"]


def _of_own_status(crowd: Crowd, visitor: Visitor, status: int, calls: list[Call]) -> list[str]:
    if visitor.method == "HEAD" and visitor.body:
        return ["HEAD with a body"]
    if status == 504 and visitor.action.kind == "stored":
        return []
    hangs = any(call.answer.fault.startswith("hangs") for call in calls)
    return (
        []
        if status in (503, 504) and (hangs or not crowd.case.weather.is_kind(set()))
        else [f"{status} for no reason"]
    )


def _of_content(crowd: Crowd, visitor: Visitor, call: Call, status: int) -> list[str]:
    answer, body, whole = call.answer, visitor.body, body_of(call)
    if call.path != visitor.action.path:
        return [f"the response of another URL: {call}"]
    if status != (503 if answer.fault == "error" else 200):
        return [f"status {status} of {call}"]
    started = [message["type"] == "http.response.start" for message in visitor.messages]
    own = call.visitor == visitor.index and "hit" not in visitor.fields["cache-status"]
    if any(started[1:]) and not (own and answer.fault == "twice"):
        return ["two first lines"]
    if own and (not answer.is_sound or answer.adds == "more"):
        return []  # as without a cache
    if visitor.method == "HEAD":
        return [f"HEAD: {body!r}"] if body else []
    if call.method == "HEAD":
        # It has renewed a stored response.
        known = [body_of(one) for one in crowd.calls if one.path == call.path and one.method == "GET"]
        return [f"{body!r} of nobody"] if visitor.is_complete and body not in known else []
    length = visitor.fields.get("content-length")
    if not whole.startswith(body):
        return [f"{body!r} of {whole!r}"]
    if length is not None and int(length) != len(whole):
        return [f"Content-Length: {length}, not {len(whole)}"]
    broken = answer.fault in ("raises", "returns", "short", "long", "hangs") and call.answer.announced
    if visitor.is_complete:
        ended = sum(not message.get("more_body", False) for message in visitor.messages[1:])
        wrong = body != whole or (broken and answer.fault != "long" and len(whole) > 1)
        return [f"{body!r} as the whole of {call}"] if wrong or (ended > 1 and not own) else []
    told = visitor.left or not answer.is_sound or "heard" in call.outcome or "Cancelled" in call.outcome
    return [] if told else [f"broken off after {len(body)} bytes of {call}"]


def _of_sharing(visitor: Visitor, call: Call) -> list[str]:
    rule, found = call.answer.rule, []
    if rule in ("personal", "unstored", "cookie", "silent"):
        found.append(f"for one client only: {call}")
    if call.cookie and rule != "public":
        found.append(f"made with a cookie: {call}")
    if rule == "varies" and visitor.action.cookie:
        found.append(f"another cookie: {call}")
    if "set-cookie" in visitor.fields:
        found.append("the cookie of another")
    return found


def _of_time(crowd: Crowd, visitor: Visitor, call: Call, calls: list[Call]) -> list[str]:
    answer, action, served = call.answer, visitor.action, visitor.served
    assert served is not None
    weather = crowd.case.weather
    slack = SLACK if weather.usual or weather.slow or not weather.is_kind(set()) else 0.0
    ended = call.ended.time if call.ended is not None else served.time
    stale = served.time - ended - slack - answer.max_age
    failed = any(
        not one.answer.is_sound
        and one.began <= served
        and (one.ended or served).time + LATELY >= visitor.began.time
        for one in calls
    )
    instead = failed or not weather.is_kind(set())
    if action.kind == "reload" and ended + slack < visitor.began.time and not instead:
        return [f"not asked for anew: {call}"]
    if stale <= 0.0:
        return []
    if answer.stale == "must-revalidate":
        return [f"{stale} s stale, which is forbidden: {call}"]
    allowed = 15.0 if action.kind == "lenient" else 0.0
    if answer.stale == "stale-while-revalidate" or (answer.stale == "stale-if-error" and instead):
        allowed = max(allowed, answer.stays)
    return [f"{stale} s stale, where {allowed} are allowed: {call}"] if stale > allowed else []


def _of_changes(crowd: Crowd, visitor: Visitor, call: Call) -> list[str]:
    found = []
    kind, served = crowd.case.weather.is_kind(set()), visitor.served
    assert served is not None
    for began, done, process, path, answer in crowd.changes:
        if path != call.path or answer != "done" or not call.began < began or not done <= visitor.began:
            continue
        if process != visitor.action.process and (not kind or served.time <= done.time + crowd.case.near):
            continue
        found.append(f"from before the invalidation at {began}: {call}")
    return found


def _was_wanted(crowd: Crowd, call: Call) -> bool:
    """Whether it stopped because its client left, although another one waited beside it for the same response."""
    answer, ended = call.answer, call.ended
    if (
        "heard" not in call.outcome
        or call.cookie
        or call.method == "HEAD"
        or ended is None
        or call.visitor is None
    ):
        return False
    before = [one.answer for one in crowd.calls[: call.number] if one.path == call.path]
    if answer.rule not in ("shared", "public") or any(one.fault or one.adds == "trailers" for one in before):
        # What could not be stored lately is not waited for.
        return False
    process = crowd.case.actions[call.visitor].process
    return any(
        (visitor.action.kind, visitor.action.path, visitor.action.process) == ("get", call.path, process)
        and visitor.index != call.visitor
        and visitor.began < call.began
        and not visitor.action.cookie
        and not visitor.left
        and (visitor.ended or ended) > ended
        and _number(visitor) in (0, *range(call.number, len(crowd.calls) + 1))
        and all(one.visitor != visitor.index for one in crowd.calls[: call.number])
        for visitor in crowd.visitors
    )


def _of_costs(crowd: Crowd, path: str) -> list[str]:
    """Only where the first response may be stored for all and nobody asks for more than that."""
    case = crowd.case
    visitors = [visitor for visitor in crowd.visitors if visitor.action.path == path]
    usual = all(v.action.kind in ("get", "stored", "lenient") and not v.action.cookie for v in visitors)
    changed = any(change[3] == path for change in crowd.changes)
    if (
        not case.is_calm
        or not usual
        or changed
        or case.changes
        or case.rules[path] not in ("shared", "public")
    ):
        return []
    calls = [call for call in crowd.calls if call.path == path]
    unstored = any(call.answer.adds == "trailers" for call in calls)
    if not calls or calls[0].answer.max_age < 1000 or unstored:
        return []
    listens, hints = calls[0].answer.listens, any(call.answer.adds == "hint" for call in calls)
    hearing = {"cancelled", *(["told"] if listens else []), *(["broken"] if hints else [])}
    left = [visitor for visitor in visitors if visitor.left and visitor.action.how in hearing]
    most = 1 + len(left)
    return [f"{len(calls)} calls for {path}, where {most} are enough"] if len(calls) > most else []
