"""Comments that a fix would remove."""

from __future__ import annotations

import io
import tokenize
from typing import Any, Protocol

Comment = tuple[int, int, str]


class _Plan(Protocol):
    @property
    def edits(self) -> tuple[Any, ...]: ...


def lost_comment(source: str, memo: dict[str, Any], plan: _Plan) -> str:
    """The first comment inside a removed or replaced place that the new text does not contain; "" if all stay."""
    if "#" not in source:
        return ""
    comments: list[Comment] | None = memo.get("comments")
    if comments is None:
        comments = memo["comments"] = _comments(source)
    for edit in plan.edits:
        at, code = getattr(edit, "at", None), getattr(edit, "code", "")
        removes = type(edit).__name__ in ("Delete", "Replace")
        if at is None or not removes:
            continue
        whole_lines = type(edit).__name__ == "Delete"
        for line, column, text in comments:
            ends = line < at.end_line or (whole_lines and line == at.end_line)
            if at.line <= line and ends and (line > at.line or column >= at.column) and text not in code:
                return text
    return ""


def _comments(source: str) -> list[Comment]:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [(*token.start, token.string) for token in tokens if token.type == tokenize.COMMENT]
