"""Plays a case through a cache and checks it, in the order that the suite's own documentation gives."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from tests.http.suite.cases import Case
from tests.http.suite.origin import DATES, http_date

__all__ = ["Answer", "Client", "Result", "Seat", "play", "summary"]

PAUSE = 3.0


class Answer(NamedTuple):
    status: int
    fields: list[tuple[str, str]]
    body: bytes

    def get(self, name: str) -> str | None:
        values = [value for key, value in self.fields if key.lower() == name.lower()]
        return ", ".join(values) if values else None


class Client(Protocol):
    async def __call__(
        self, method: str, path: str, fields: list[tuple[str, str]], body: bytes
    ) -> Answer: ...


class Seat(NamedTuple):
    """`pause` lets seconds go by; `settle` waits for what goes on in the background."""

    client: Client
    pause: Callable[[float], Awaitable[None]]
    run: str


class Result(NamedTuple):
    """`passed`, or why not; `setup`: it could not be asked what it asks."""

    id: str
    kind: str
    passed: bool
    setup: bool = False
    why: str = ""


class _Wrong(Exception):
    def __init__(self, check: str, text: str, *, setup: bool = False) -> None:
        super().__init__(text)
        self.check = check
        self.setup = setup


async def play(case: Case, seat: Seat) -> Result:
    base = f"/case/{seat.run}/{case.id}"
    answers: list[Answer] = []
    try:
        for number, config in enumerate(case.requests, 1):
            path = base + (f"/{config['filename']}" if "filename" in config else "")
            path += f"?{config['query_arg']}" if "query_arg" in config else ""
            fields = _request_fields(config, number, answers)
            body = str(config.get("request_body", "")).encode()
            answers.append(await seat.client(config.get("request_method", "GET"), path, fields, body))
            if config.get("pause_after"):
                await seat.pause(PAUSE)
        state = await seat.client("GET", f"/state/{seat.run}/{case.id}", [], b"")
        seen = json.loads(state.body)
        for number, config in enumerate(case.requests, 1):
            try:
                _check_answer(case, config, number, answers, seat.run, seen)
            except _Wrong as wrong:
                is_setup = wrong.setup or config.get("setup") or wrong.check in config.get("setup_tests", ())
                return Result(case.id, case.kind, False, bool(is_setup), f"request {number}: {wrong}")
        for number, config in enumerate(case.requests, 1):
            try:
                _check_origin(config, number, answers, seen)
            except _Wrong as wrong:
                is_setup = wrong.setup or config.get("setup") or wrong.check in config.get("setup_tests", ())
                return Result(case.id, case.kind, False, bool(is_setup), f"origin, request {number}: {wrong}")
    except Exception as error:
        return Result(case.id, case.kind, False, True, repr(error))
    return Result(case.id, case.kind, True)


def _request_fields(config: dict[str, Any], number: int, answers: list[Answer]) -> list[tuple[str, str]]:
    fields = [("Pragma", "foo"), ("Cache-Control", "nothing-to-see-here"), ("Req-Num", str(number))]
    for name, value in config.get("request_headers", ()):
        if isinstance(value, int) and name.lower() in DATES:
            now = int(answers[-1].get("Server-Now") or 0) / 1000
            value = http_date(now + value, rfc850=name.lower() in config.get("rfc850date", ()))
        # What the case says of a field goes before what the client always sends.
        fields = [pair for pair in fields if pair[0].lower() != name.lower() or name in _twice(config)]
        fields.append((name, str(value)))
    return fields


def _twice(config: dict[str, Any]) -> set[str]:
    names = [name for name, _ in config.get("request_headers", ())]
    return {name for name in names if names.count(name) > 1}


def _need(condition: bool, check: str, text: str, *, setup: bool = False) -> None:
    if not condition:
        raise _Wrong(check, text, setup=setup)


def _check_answer(
    case: Case,
    config: dict[str, Any],
    number: int,
    answers: list[Answer],
    run: str,
    seen: list[dict[str, Any]],
) -> None:
    answer = answers[number - 1]
    numbers = (answer.get("Request-Numbers") or "").split()
    _need(len(numbers) == len(set(numbers)), "retry", f"retried: {numbers}", setup=True)
    _check_type(config, number, answer, seen)
    expected = config.get("expected_status", config.get("response_status", [200])[0])
    _need(expected is None or answer.status == expected, "expected_status",
          f"status {answer.status}, not {expected}", setup="expected_status" not in config)  # fmt: skip
    for item in config.get("expected_response_headers", ()):
        _check_header(item, answer, config)
    for item in config.get("expected_response_headers_missing", ()):
        name, value = (item, None) if isinstance(item, str) else item
        found = answer.get(name)
        _need(found is None or (value is not None and value not in found),
              "expected_response_headers_missing", f"{name}: {found}")  # fmt: skip
    method = config.get("request_method", "GET")
    if config.get("check_body", True) and method != "HEAD" and answer.status not in (204, 304):
        text = config.get("expected_response_text", config.get("response_body", f"{run}/{case.id}"))
        told = "expected_response_text" in config
        _need(text is None or answer.body == text.encode(), "expected_response_text",
              f"body {answer.body[:40]!r}, not {text!r}", setup=not told)  # fmt: skip
    _need(not config.get("expected_interim_responses"), "expected_interim_responses", "no interim response")


def _check_type(config: dict[str, Any], number: int, answer: Answer, seen: list[dict[str, Any]]) -> None:
    kind = config.get("expected_type")
    count = answer.get("Server-Request-Count")
    if kind == "cached":
        fine = answer.status == 304 if count is None else int(count) < number
        _need(fine, "expected_type", f"not from the cache (count {count})")
    elif kind == "not_cached":
        _need(count is not None and int(count) == number, "expected_type", f"from the cache (count {count})")
    elif kind in ("etag_validated", "lm_validated"):
        condition = "if-none-match" if kind == "etag_validated" else "if-modified-since"
        fields = next((dict(one["fields"]) for one in seen if one["number"] == number), {})
        _need(condition in fields, "expected_type", f"the origin saw no {condition}")


def _check_header(item: Any, answer: Answer, config: dict[str, Any]) -> None:
    check = "expected_response_headers"
    if isinstance(item, str):
        _need(answer.get(item) is not None, check, f"no {item}")
        return
    name, found = item[0], answer.get(item[0])
    if len(item) == 3 and item[1] == ">":
        _need(
            found is not None and found.isdigit() and int(found) > item[2],
            check,
            f"{name}: {found}, not > {item[2]}",
        )
    elif len(item) == 3 and item[1] == "=":
        _need(found == answer.get(item[2]), check, f"{name}: {found}, not that of {item[2]}")
    else:
        value = item[1]
        if isinstance(value, int) and name.lower() in DATES:
            value = http_date(int(answer.get("Server-Now") or 0) / 1000 + value)
        _need(found == str(value), check, f"{name}: {found!r}, not {value!r}")


def _check_origin(
    config: dict[str, Any], number: int, answers: list[Answer], seen: list[dict[str, Any]]
) -> None:
    note = next((one for one in seen if one["number"] == number), None)
    fields: dict[str, str] = dict(note["fields"]) if note is not None else {}
    for item in config.get("expected_request_headers", ()):
        name, value = (item, None) if isinstance(item, str) else item
        found = fields.get(name.lower())
        _need(found is not None and (value is None or found == value),
              "expected_request_headers", f"{name}: {found!r}, not {value!r}")  # fmt: skip
    for item in config.get("expected_request_headers_missing", ()):
        name, value = (item, None) if isinstance(item, str) else item
        found = fields.get(name.lower())
        _need(found is None or (value is not None and found != value),
              "expected_request_headers_missing", f"{name}: {found!r}")  # fmt: skip
    if "expected_method" in config:
        _need(note is not None and note["method"] == config["expected_method"], "expected_method",
              f"not a {config['expected_method']}")  # fmt: skip
    if note is None:
        return
    compared = {
        str(item[0]).lower() for item in config.get("response_headers", ()) if len(item) < 3 or item[2]
    }
    for name in compared:
        sent = ", ".join(value for key, value in note["sent"] if key.lower() == name)
        found = answers[number - 1].get(name)
        _need(found == sent, "response_headers", f"{name}: {found!r}, sent as {sent!r}", setup=True)


def summary(results: list[Result]) -> str:
    """Passes per kind, and the ids that failed."""
    text = []
    for kind in ("required", "optimal", "check"):
        of_kind = [result for result in results if result.kind == kind]
        text.append(f"{kind}: {sum(result.passed for result in of_kind)} of {len(of_kind)}")
    text += [
        f"  {result.kind} {result.id}{' (set-up)' if result.setup else ''}: {result.why}"
        for result in results
        if not result.passed
    ]
    return "\n".join(text)
