"""The parts of an entry's name, for an operator: namespace, function, digest of the version, parts.

`function.explain(...)` goes the other way, from a call to its parts, including the hashed ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from stampede_guard.errors import Misuse
from stampede_guard.values.keys.builder import SHOWN
from stampede_guard.values.keys.kinds import UNNAMED
from stampede_guard.values.parts.classes import DIGITS, DIGITS_OF_FUNCTION

__all__ = [
    "AFTER_NAMESPACE",
    "KEPT_FOR_COMPARISON",
    "LONGEST_NAME",
    "Explanation",
    "Part",
    "bare",
    "explain_name",
    "namespace_of",
]

KEPT_FOR_COMPARISON = "?shadow"
"""Suffix of an entry's name where mode `shadow` stores values. In an entry's own name, `?` is escaped."""

LONGEST_NAME = 8192
"""Characters. The longest name is a key of 512 characters that are each escaped as four bytes."""

AFTER_NAMESPACE = rf"[=#]|http\d*:|[^:]+:[0-9a-f]{{{DIGITS_OF_FUNCTION}}}:"
"""How the name of an entry goes on after its namespace, as a regular expression."""
_FUNCTION = re.compile(
    rf"(?P<function>.*?):(?P<digest>[0-9a-f]{{{DIGITS_OF_FUNCTION}}}):(?P<parts>.*)", re.DOTALL
)
_NAMESPACE = re.compile(rf"(?P<namespace>[A-Za-z0-9._:-]{{1,64}}?):(?:{AFTER_NAMESPACE})", re.DOTALL)
_URL = re.compile(r"http\d*:(?P<url>.+)", re.DOTALL)
_SHAPE = re.compile(r"(?P<key>.*?)(?:#(?P<shape>[0-9a-f]{6,64}))?", re.DOTALL)
_HASHED = re.compile(rf"(?P<begin>.*)~(?P<digest>[0-9a-f]{{{DIGITS}}})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """`label`: a parameter, `@` and a context variable, or `key=`. `text` is the text in the key, unescaped."""

    label: str
    text: str
    hashed: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """`kind`: "function" for a decorated one, "key" for `get_or_compute` and `single`, "tag" for the version of a
    tag, "url" for an entry of the HTTP cache.

    `digest` covers the function's whole name, its `version=` and the shape of its result; for a key, the type.
    `complete`: False if the name ends in a digest of the parts that did not fit.
    """

    name: str
    namespace: str
    kind: str
    title: str
    digest: str
    parts: tuple[Part, ...]
    complete: bool = True


def explain_name(name: str, *, namespace: str | None = None) -> Explanation:
    """Raises `Misuse` if this is not a complete name of an entry. Pass `namespace` if it contains colons."""
    if not 0 < len(name) <= LONGEST_NAME:
        raise Misuse(f"the name of an entry has 1 to {LONGEST_NAME} characters, not {len(name)}")
    name = bare(name)
    space, rest = _split(name.removesuffix(KEPT_FOR_COMPARISON), namespace)
    if rest.startswith("="):
        found = _SHAPE.fullmatch(rest[1:])
        assert found is not None
        key = unquote(found["key"])
        title = f"{space}:{UNNAMED}"
        return Explanation(name, space, "key", title, found["shape"] or "", (Part("key", key),))
    if rest.startswith("#"):
        hashed = _HASHED.fullmatch(rest)
        tag = Part("tag", unquote(rest[1:]), hashed=hashed is not None)
        return Explanation(name, space, "tag", tag.text, "", (tag,), complete=hashed is None)
    url = _URL.fullmatch(rest)
    if url is not None:
        return Explanation(name, space, "url", "http", "", (Part("url", url["url"]),))
    found = _FUNCTION.fullmatch(rest)
    if found is None:
        raise Misuse(
            f"{name!r} is no complete name of an entry: write what `stampede-guard keys` shows, such as "
            "shop:shop.reports.quality:0123456789ab:project=7, or shop:=report:7"
        )
    parts, complete = _parts(found["parts"])
    title = unquote(found["function"])
    return Explanation(name, space, "function", title, found["digest"], parts, complete)


def namespace_of(name: str) -> str | None:
    """The namespace in an entry's name, with its tenant. None if it is no such name."""
    found = _NAMESPACE.match(name)
    return None if found is None else found["namespace"]


def bare(name: str) -> str:
    """Accepts the form in Redis, {name}:v, too."""
    found = re.fullmatch(r"\{(.+)\}(?::[verlwf])?", name, re.DOTALL)
    return found[1] if found is not None else name


def _split(name: str, namespace: str | None) -> tuple[str, str]:
    if namespace is not None and name.startswith(f"{namespace}:"):
        rest = name[len(namespace) + 1 :]
        tenant = re.match(r"([A-Za-z0-9._-]{1,40}):(?=[=#])", rest)
        return (f"{namespace}:{tenant[1]}", rest[tenant.end() :]) if tenant else (namespace, rest)
    own = re.match(r"([A-Za-z0-9._:-]{1,64}?):(?=[=#])", name)
    space, _, rest = name.partition(":") if own is None else (own[1], ":", name[own.end() :])
    return space, rest


def _parts(text: str) -> tuple[tuple[Part, ...], bool]:
    hashed = _HASHED.fullmatch(text)
    complete = True
    if hashed is not None and len(hashed["begin"]) >= SHOWN and not hashed["begin"].endswith("="):
        # The whole text was too long: only the start of the last part is left.
        text, complete = hashed["begin"], False
    parts = [_part(part) for part in _at_commas(text) if part]
    return tuple(parts), complete


def _part(text: str) -> Part:
    label, equals, value = text.partition("=")
    if not equals:
        label, value = "", text
    return Part(unquote(label), unquote(value), hashed=_HASHED.fullmatch(value) is not None)


def _at_commas(text: str) -> list[str]:
    """Splits at commas outside brackets. Commas in values are escaped."""
    parts, depth, begin = [], 0, 0
    for index, mark in enumerate(text):
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if mark == "," and depth == 0:
            parts.append(text[begin:index])
            begin = index + 1
    return [*parts, text[begin:]]
