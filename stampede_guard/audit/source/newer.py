"""Blanks out syntax that is newer than the Python that runs the audit, if no rule needs it.

Type parameters (PEP 695) become spaces and `type X = ...` becomes `X    = ...`, so every line and column stays.
`fstrings` does the same for PEP 701. A file with even newer syntax is reported as skipped.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings

from stampede_guard.audit.source import fstrings

_TYPE_PARAMETERS = re.compile(r"^([ \t]*(?:class|def|async[ \t]+def)[ \t]+\w+)(\[)", re.MULTILINE)
_TYPE_ALIAS = re.compile(r"^([ \t]*)type([ \t]+\w+)(\[[^\]\n]*\])?([ \t]*=)", re.MULTILINE)
_EXCEPT = re.compile(r"^([ \t]*except[ \t]+)(\w[\w.]*(?:[ \t]*,[ \t]*\w[\w.]*)+)([ \t]*:)", re.MULTILINE)


def parse(source: str) -> ast.Module:
    """Raises SyntaxError if the source cannot be read even then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # warnings about the other code
        try:
            return ast.parse(source)
        except SyntaxError:
            older = _blank(source)
            if older == source:
                raise
            return ast.parse(older)


def _blank(source: str) -> str:
    if sys.version_info < (3, 12):
        source = _TYPE_ALIAS.sub(_plain_assignment, source)
        found = _TYPE_PARAMETERS.search(source)
        while found:
            end = _closing(source, found.start(2))
            source = source[: found.start(2)] + _spaces(source[found.start(2) : end]) + source[end:]
            found = _TYPE_PARAMETERS.search(source, end)
        source = fstrings.older(source)
    if sys.version_info < (3, 14):
        source = _EXCEPT.sub(lambda m: f"{m[1]}({m[2]}){m[3]}", source)
    return source


def _plain_assignment(alias: re.Match[str]) -> str:
    text = f"{alias[1]}{alias[2].strip()}"
    return text.ljust(len(alias[0]) - 1) + "="


def _closing(source: str, opening: int) -> int:
    depth = 0
    for index in range(opening, min(len(source), opening + 2_000)):
        depth += {"[": 1, "]": -1}.get(source[index], 0)
        if depth == 0:
            return index + 1
    return opening + 1


def _spaces(text: str) -> str:
    return "".join(character if character == "\n" else " " for character in text)
