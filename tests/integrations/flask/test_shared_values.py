"""What several callers of one computation get: nothing that one of them could change for the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask, Response, abort, make_response, session
from werkzeug.exceptions import HTTPException

from stampede_guard.integrations.flask import Stampede

PATIENCE = 60.0
VISITORS = 4


class Gate:
    """Opens when all visitors are about to call: so they meet the first computation."""

    def __init__(self) -> None:
        self._arrived = threading.Semaphore(0)
        self._opened = threading.Event()

    def arrive(self) -> None:
        self._arrived.release()

    def wait(self) -> None:
        assert self._opened.wait(PATIENCE)

    def open(self) -> None:
        for _ in range(VISITORS):
            assert self._arrived.acquire(timeout=PATIENCE)
        self._opened.set()


def answers_of_all(app: Flask, gate: Gate) -> list[Any]:
    with ThreadPoolExecutor(VISITORS) as pool:
        asked = [pool.submit(app.test_client().get, f"/{number}") for number in range(VISITORS)]
        gate.open()
        return [one.result(PATIENCE) for one in asked]


def stream() -> Any:
    return iter("page")


INSIDE: dict[str, Callable[[], Any]] = {
    "tuple": lambda: (make_response("page"), 201),
    "nested": lambda: ((make_response("page"), {"X-Shop": "open"}), 201)[0],
    "stream in a tuple": lambda: (stream(), 201),
}


@pytest.mark.parametrize("kind", INSIDE)
def test_a_response_inside_a_result_never_gets_the_cookies_of_two_visitors(
    kind: str, stampede: Stampede, app: Flask
) -> None:
    gate = Gate()

    @stampede.locked_cache(ttl=60)
    def page():  # type: ignore[no-untyped-def]
        gate.wait()
        return INSIDE[kind]()

    @app.get("/<int:visitor>")
    def view(visitor: int) -> Any:
        session["visitor"] = visitor
        gate.arrive()
        return page()

    answers = answers_of_all(app, gate)
    assert [answer.text for answer in answers] == ["page"] * VISITORS
    assert [len(answer.headers.getlist("Set-Cookie")) for answer in answers] == [1] * VISITORS


def test_the_response_of_an_error_never_gets_the_cookies_of_two_visitors(
    stampede: Stampede, app: Flask
) -> None:
    gate = Gate()

    @stampede.locked_cache(ttl=60)
    def page() -> str:
        gate.wait()
        abort(make_response("closed", 410))

    @app.get("/<int:visitor>")
    def view(visitor: int) -> Any:
        session["visitor"] = visitor
        gate.arrive()
        try:
            return page()
        except HTTPException as error:
            answer = error.get_response()
            assert isinstance(answer, Response)
            return answer

    answers = answers_of_all(app, gate)
    assert [(answer.status_code, answer.text) for answer in answers] == [(410, "closed")] * VISITORS
    assert [len(answer.headers.getlist("Set-Cookie")) for answer in answers] == [1] * VISITORS
