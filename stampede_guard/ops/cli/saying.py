"""Writes lines to the terminal, without what would steer it: names and errors in them come from other programs."""

from __future__ import annotations

import json
import re
from typing import Any

import typer

__all__ = ["json_text", "printable", "say"]

_STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Some of them would move the cursor, set the window's title or fill the clipboard. Those of Unicode's bidirectional
algorithm (UAX 9, 2) would show a line in another order than it has."""


def printable(text: str) -> str:
    """Line ends stay."""
    return _STEERING.sub("", text)


def json_text(found: Any, **options: Any) -> str:
    """JSON for people and programs: what would steer a terminal is escaped, so nothing is lost."""
    text = json.dumps(found, ensure_ascii=False, **options)
    return _STEERING.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text)


def say(text: object, *, err: bool = False) -> None:
    """One line, or several. `err`: to standard error."""
    typer.echo(printable(str(text)), err=err)
