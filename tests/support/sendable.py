"""What a worker of a run can send to the process that counts."""

from __future__ import annotations

from typing import Any

__all__ = ["report_sendable", "sendable"]


def report_sendable(told: dict[str, Any] | None) -> Any:
    """Without the names by which `-k` selects: half of what a report weighs, and nobody there asks for them."""
    return sendable({**told, "keywords": {}} if told and "keywords" in told else told)


def sendable(told: Any) -> Any:
    """A report's data with half characters escaped: what tests print and log may be no UTF-8, what is sent must be."""
    match told:
        case str():
            return told.encode("utf-8", "backslashreplace").decode("utf-8")
        case dict():
            return {sendable(name): sendable(value) for name, value in told.items()}
        case list() | tuple():
            return type(told)(sendable(value) for value in told)
        case _:
            return told
