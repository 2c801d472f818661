"""What an application answers over HTTP to errors of this library, for every framework."""

from __future__ import annotations

import logging
import math
from http.client import responses
from typing import NamedTuple

from stampede_guard.errors import ComputeFailed, ComputeTimeout, StoreError, WaitTimeout

__all__ = ["ANSWERED", "HttpAnswer", "answer_to"]

log = logging.getLogger("stampede_guard")

STORE_RETRY = 5.0
"""In seconds: the `Retry-After` of the answer to a store error."""

ANSWERED: tuple[type[Exception], ...] = (WaitTimeout, StoreError, ComputeTimeout, ComputeFailed)
"""The classes of errors that `answer_to` may have an answer to."""


class HttpAnswer(NamedTuple):
    """`retry_after`: whole seconds for the field Retry-After, or None."""

    status: int
    detail: str
    retry_after: int | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


def answer_to(error: BaseException) -> HttpAnswer | None:
    """503 with Retry-After, 504, or the status of an original error. None: this is an error like any other."""
    match error:
        case WaitTimeout(retry_after=seconds):
            return _unavailable("The value is being computed. Try again.", seconds)
        case StoreError():
            # The store's text may name entries and users. So neither the client nor the log gets it.
            log.error("a request failed with an error of the store: %s", type(error).__name__)
            return _unavailable("The cache is not available. Try again.", STORE_RETRY)
        case ComputeTimeout():
            return HttpAnswer(504, "The value was not computed in time.")
        case ComputeFailed(status_code=int(status)):
            return HttpAnswer(status, responses.get(status, ""))
        case _:
            return None


def _unavailable(detail: str, retry_after: float) -> HttpAnswer:
    return HttpAnswer(503, detail, max(1, math.ceil(retry_after)))
