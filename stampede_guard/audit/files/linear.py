"""gitignore patterns whose match takes time in proportion to the path, however many stars they have."""

from __future__ import annotations

from typing import Any

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

__all__ = ["LinearPattern"]

_STAR, _FOLDERS = "[^/]*", "(?:/.+)?"
"""How pathspec writes `*`, and `**` between two folders. No other part of its expressions looks like them."""


class LinearPattern(GitIgnoreSpecPattern):
    """The same matches as pathspec's.

    Its expressions try every way to share a name among the stars: `*a*a*a*b` takes time like the cube of the length,
    and a repository may contain a pattern of a hundred stars. The text between two stars has a fixed length. So the
    first place where it fits is right, and an atomic group makes `re` keep it.
    """

    __slots__ = ()

    @classmethod
    def pattern_to_regex(cls, pattern: Any) -> Any:
        regex, include = super().pattern_to_regex(pattern)
        if regex is None:
            return regex, include
        first, *between, last = regex.split(_FOLDERS) if regex.count(_FOLDERS) > 1 else (regex, "")
        if between:
            kept = "".join(f"(?>{_FOLDERS}?{part}(?=/))" for part in between)
            regex = f"{first}{kept}{_FOLDERS}{last}"
        return regex, include

    @classmethod
    def _translate_segment_glob(cls, pattern: str, range_error: Any) -> str:
        found: str = super()._translate_segment_glob(pattern, range_error)
        first, *between, last = found.split(_STAR) if found.count(_STAR) > 1 else (found, "")
        if not between:
            return found
        kept = "".join(f"(?>{_STAR}?{part})" for part in between if part)
        return f"{first}{kept}{_STAR}{last}"
