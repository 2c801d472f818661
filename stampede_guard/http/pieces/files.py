"""What an application names in place of a body: a path (`pathsend`), or an open file (`zerocopysend`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

__all__ = ["content_of", "read_on"]


def content_of(message: Mapping[str, Any], most: int) -> bytes | None:
    """The content of a message that names a file; None if it is more than `most` bytes, or cannot be read."""
    try:
        if message["type"] == "http.response.pathsend":
            with open(message["path"], "rb") as file:
                content = file.read(most + 1)
        else:
            offset, count = message.get("offset"), message.get("count")
            number = _number_of(message)
            place = os.lseek(number, 0, os.SEEK_CUR) if offset is None else offset
            content = os.pread(number, most + 1 if count is None else min(count, most + 1), place)
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    return content if len(content) <= most else None


def read_on(message: Mapping[str, Any], count: int) -> None:
    """Moves the position of an open file, as a server does that sends so many bytes from there. With an offset, it
    stays.
    """
    if message["type"] == "http.response.zerocopysend" and message.get("offset") is None:
        os.lseek(_number_of(message), count, os.SEEK_CUR)


def _number_of(message: Mapping[str, Any]) -> int:
    file = message["file"]
    number: int = file if isinstance(file, int) else file.fileno()
    return number
