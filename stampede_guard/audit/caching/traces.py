"""Traces of cache reads and writes in unparsed text: all that `accesses` would find, and a little more.

A syntax tree costs a hundred times as much as this. So for the fill rules a file is parsed only if one function has
a read and a write, or if a reader calls a function with a write. The tables are those of `accesses`, so additions
there apply here. Mistakes go one way only: the search may let too much through, never too little.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from stampede_guard.audit.caching.naming.helpers import PLAIN_VERBS, helper_role, is_no_access
from stampede_guard.audit.caching.naming.methods import METHODS
from stampede_guard.audit.caching.receivers import MAYBE_WORDS, SERVERS, is_another
from stampede_guard.audit.caching.tables import tables_in
from stampede_guard.audit.source.handed import HANDED, HANDING
from stampede_guard.audit.source.words import CACHE_STEMS, is_cachy, words

Role = Literal["read", "write"]

_GAP = rb"[\s\\]*"
_WRITE, _READ = (
    re.compile(
        rb"\.%b_?(%b)%b\("
        % (_GAP, b"|".join(sorted(n.encode() for n, role in METHODS.items() if role == of)), _GAP)
    )
    for of in ("write", "read")
)
# Code uses a cache only by a call, an index or an attribute.
_STEMS = tuple(re.compile(rb"%b\w{0,80}(?=%b[(\[.])" % (stem.encode(), _GAP)) for stem in CACHE_STEMS)
_BEFORE = re.compile(rb"(\w+)(?:\([^()]*\)|\[[^\[\]]*\])*[\s\\]*$")
_CALLED = re.compile(rb"%b\(" % _GAP)
_CALLED_OF = re.compile(rb"(?:\([^()]*\)|\[[^\[\]]*\])*%b\.%b(\w+)%b\(" % (_GAP, _GAP, _GAP))
# `from app.cache import load_user, save_user as save`
_FROM = re.compile(rb"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)", re.MULTILINE)
_ALIAS = re.compile(rb"(\w+)(?:[ \t]+as[ \t]+(\w+))?")
_IN = re.compile(rb" in ([\w.]+)")
# `db.get_json_key(redis_key)`
_BY_KEY = re.compile(rb"\b(?:get|load|fetch|read|lookup|aget)\w{0,80}\(\s*\w{0,80}key\w{0,80}\s*[,)]")
_CALLS = re.compile(rb"(\w+)%b\(" % _GAP)
_DEF = re.compile(rb"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
# Methods that sets, lists and files also have.
_COMMON = frozenset(
    "add insert write save store cache read load find fetch lookup has contains exists peek".split()
)
_WINDOW = 160  # bytes searched backwards for a receiver; a longer one counts as any
_AHEAD = 2_000  # extra bytes searched: the next search is often in the same function
_LONGEST_NAME = 200  # bytes of a name that is read
_ANY = "*"


@dataclass(frozen=True)
class Trace:
    """A read or a write at a byte. `of` is the receiver's last name; "" for a helper of the project."""

    at: int
    role: Role
    of: str


class Traces:
    """All traces of one text, and whether they share a function."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._imported = _imported(data)
        self.writes = _sorted(
            _of_methods(data, _WRITE, "write"),
            _of_helpers(data, "write"),
            self._elsewhere(0, len(data)),
            _of_handed(data, "write"),
        )
        self._written = {trace.of for trace in self.writes}
        # Reads found so far: by the start of a function, with the end of the searched part.
        self._looked: dict[int, tuple[int, list[Trace]]] = {}

    @cached_property
    def tables(self) -> list[int]:
        return tables_in(self.data)

    @cached_property
    def reads(self) -> list[Trace]:
        return self._reads(0, len(self.data))

    def _reads(self, start: int, end: int) -> list[Trace]:
        return _sorted(
            _of_methods(self.data, _READ, "read", start, end),
            _of_helpers(self.data, "read", start, end),
            _of_membership(self.data, self._written, start, end),
            self._elsewhere(start, end),
            _between(self._handed, start, end),
            _between(self._by_key, start, end),
        )

    def _elsewhere(self, start: int, end: int) -> list[Trace]:
        return _between(self._of_cache_modules, start, end)

    @cached_property
    def _of_cache_modules(self) -> list[Trace]:
        return _sorted(_of_imported(self.data, self._imported))

    @cached_property
    def _handed(self) -> list[Trace]:
        return list(_of_handed(self.data, "read"))

    @cached_property
    def _by_key(self) -> list[Trace]:
        return (
            [Trace(found.start(), "read", "") for found in _BY_KEY.finditer(self.data)] if self.writes else []
        )

    @cached_property
    def may_fill(self) -> bool:
        """Whether some function reads, and later writes what may be the same key."""
        piped = b".pipeline(" in self.data
        return any(piped or _related(read, write) for write in self.writes for read in self._before(write.at))

    @cached_property
    def may_fill_by_hop(self) -> bool:
        """Whether some function reads, and then calls a function that writes."""
        names = {name for write in self.writes for name in self._functions_around(write.at)}
        return any(self._before(at) for name in names for at in self._calls(name))

    @cached_property
    def may_fill_by_own(self) -> bool:
        """Whether some function calls one that reads, and then one that writes."""
        writers = {name for write in self.writes for name in self._functions_around(write.at)}
        known: dict[bytes, bool] = {}
        for at in (at for name in writers for at in self._calls(name)):
            around = self._around(at)
            called = set(_CALLS.findall(self.data, around.end(), at)) if around is not None else set()
            for name in called & self._names:
                if name not in known:
                    known[name] = self._defines_a_read(name)
                if known[name]:
                    return True
        return False

    def _defines_a_read(self, name: bytes) -> bool:
        """Whether a function with this name reads. Its text is taken to end at the next function."""
        starts = [found.start() for found in self._defined]
        ends = [*starts[1:], len(self.data)]
        return any(
            found[2] == name and bool(self._reads(start, end))
            for found, start, end in zip(self._defined, starts, ends, strict=True)
        )

    @cached_property
    def _names(self) -> frozenset[bytes]:
        return frozenset(found[2] for found in self._defined)

    @cached_property
    def may_flag(self) -> bool:
        """Whether some function reads, and later writes anything."""
        return any(self._before(write.at) for write in self.writes)

    def lines(self) -> list[int]:
        """The lines with a trace, from 1, in order."""
        found: list[int] = []
        line, before = 1, 0
        for at in sorted((*(trace.at for trace in (*self.reads, *self.writes)), *self.tables)):
            line += self.data.count(b"\n", before, at)
            before = at
            found.append(line)
        return found

    # --------------------------------------------------------------------------------------------- functions

    def _before(self, at: int) -> list[Trace]:
        """The reads in the same function that come before a place."""
        around = self._around(at)
        if around is None:
            return []
        start = around.start()
        end, known = self._looked.get(start, (start, []))
        if end < at:
            end = min(len(self.data), at + _AHEAD)
            known = self._reads(start, end)
            self._looked[start] = end, known
        return known[: bisect_left(known, at, key=lambda trace: trace.at)]

    def _functions_around(self, at: int) -> set[bytes]:
        """The function of a place. If a string literal could have misled the search, also the other candidates."""
        around = self._around(at)
        if around is None:
            return set()
        return {found[2] for found in self._defined if around.start() <= found.start() < at}

    def _calls(self, name: bytes) -> Iterator[int]:
        for found in re.finditer(rb"\b%b%b\(" % (name, _GAP), self.data):
            if self.data[found.start() - 4 : found.start()] != b"def ":
                yield found.start()

    def _around(self, at: int) -> re.Match[bytes] | None:
        """The definition around a place, or one further up.

        A string literal with unindented lines looks like the function's end. Then the indentation decides.
        """
        known, end = self._defined, self._line_end(at)
        before = range(bisect_left(known, at, key=lambda found: found.start()) - 1, -1, -1)
        for index in before:
            found = known[index]
            if _outdent(len(found[1])).search(self.data, found.end(), end) is None:
                return found
        width = self._width(at)
        return next((known[index] for index in before if len(known[index][1]) < width), None)

    def _line_end(self, at: int) -> int:
        end = self.data.find(b"\n", at)
        return len(self.data) if end < 0 else end

    def _width(self, at: int) -> int:
        line = self.data[self.data.rfind(b"\n", 0, at) + 1 : at + 1]
        return len(line) - len(line.lstrip())

    @cached_property
    def _defined(self) -> list[re.Match[bytes]]:
        return list(_DEF.finditer(self.data))


@lru_cache(maxsize=64)
def _outdent(width: int) -> re.Pattern[bytes]:
    """A line that ends a block of this indentation. A closing bracket continues the line before."""
    return re.compile(rb"\n[ \t]{0,%d}[^\s#)\]}]" % width)


def _related(read: Trace, write: Trace) -> bool:
    if not read.of or not write.of or read.of == write.of or _ANY in (read.of, write.of):
        return True
    if read.of in SERVERS and write.of in SERVERS:
        return True
    return "pipe" in f"{read.of} {write.of}" or (is_cachy(read.of) and is_cachy(write.of))


def _sorted(*found: Iterable[Trace]) -> list[Trace]:
    return sorted((trace for traces in found for trace in traces), key=lambda trace: trace.at)


def _of_methods(
    data: bytes, pattern: re.Pattern[bytes], role: Role, start: int = 0, end: int = sys.maxsize
) -> Iterator[Trace]:
    """`cache.get(`, `redis.setex(`."""
    for found in pattern.finditer(data, start, end):
        of = _name_before(data, found.start())
        if _may_be_cache(of, found[1].decode()):
            yield Trace(found.start(), role, of)


def _of_helpers(data: bytes, role: Role, start: int = 0, end: int = sys.maxsize) -> Iterator[Trace]:
    """`get_cached_user(`, `cache.fetch_user(`."""
    low = data[start:end].lower()
    for stem in _STEMS:
        for found in stem.finditer(low):
            first, last = found.start() + start, found.end() + start
            while first > max(0, last - _LONGEST_NAME) and _is_word(data[first - 1]):
                first -= 1
            name = data[first:last].decode("utf-8", "replace")
            if _CALLED.match(data, last):
                if _role(name) == role:
                    yield Trace(first, role, "")
            elif is_cachy(name) and (called := _CALLED_OF.match(data, last)) is not None:
                if _role_of_method(called[1].decode("utf-8", "replace")) == role:
                    yield Trace(called.start(1), role, "")


def _of_membership(data: bytes, written: set[str], start: int, end: int) -> Iterator[Trace]:
    """`key in cache`."""
    for found in _IN.finditer(data, start, end):
        of = found[1].rpartition(b".")[2].decode("utf-8", "replace")
        if of in written or is_cachy(of):
            yield Trace(found.start(), "read", of)


def _imported(data: bytes) -> frozenset[bytes]:
    """The bare names from cache modules. Their files decide what they do, so each may read and write."""
    found: set[bytes] = set()
    for line in _FROM.finditer(data):
        if is_cachy(line[1].rpartition(b".")[2].decode("utf-8", "replace")):
            found.update(alias[2] or alias[1] for alias in _ALIAS.finditer(line[2]))
    return frozenset(found)


def _of_imported(data: bytes, names: frozenset[bytes]) -> Iterator[Trace]:
    for name in names:
        for found in re.finditer(rb"\b%b(?:\.\w+)?%b\(" % (re.escape(name), _GAP), data):
            yield Trace(found.start(), "read", "")


def _between(traces: list[Trace], start: int, end: int) -> list[Trace]:
    first = bisect_left(traces, start, key=lambda trace: trace.at)
    return traces[first : bisect_left(traces, end, lo=first, key=lambda trace: trace.at)]


def _of_handed(data: bytes, role: Role) -> Iterator[Trace]:
    """`to_thread(cache.get, key)`, `add_task(set_cached_user, user)`."""
    if not any(name in data for name in HANDING):
        return
    for found in HANDED.finditer(data):
        of, name = found[1].rstrip(b".").decode("utf-8", "replace"), found[2].decode("utf-8", "replace")
        if _role_of_handed(of, name) == role:
            yield Trace(found.start(2), role, "")


def _role_of_handed(of: str, name: str) -> Role | None:
    receiver = of.rstrip("()").rpartition(".")[2]
    if name in METHODS and receiver:
        return METHODS[name] if _may_be_cache(receiver, name) else None
    return _role(name) or (_role_of_method(name) if is_cachy(receiver) else None)


def _name_before(data: bytes, end: int) -> str:
    found = _BEFORE.search(data, max(0, end - _WINDOW), end)
    return found[1].decode("utf-8", "replace") if found else _ANY


@lru_cache(maxsize=20_000)
def _may_be_cache(name: str, method: str) -> bool:
    """The receiver's name decides. For other names, only verbs that clearly mean a cache count."""
    said = words(name)
    if name == "super" or (is_another(name) and said[-1] != "db"):
        return False
    return (
        method not in _COMMON
        or name in (_ANY, "self", "cls")
        or is_cachy(name)
        or bool(MAYBE_WORDS & {*said})
    )


@lru_cache(maxsize=20_000)
def _role(name: str) -> Role | None:
    said = words(name)
    if not is_cachy(name) or name[:1].isupper():
        return None
    if is_no_access(said):
        return "write" if said[0] in PLAIN_VERBS else None
    return helper_role(said)


@lru_cache(maxsize=20_000)
def _role_of_method(name: str) -> Role | None:
    """What a method does, if its object's name is that of a cache."""
    said = words(name)
    if name in METHODS or not said or is_no_access(said) or name[:1].isupper():
        return None
    return helper_role(said)


def _is_word(byte: int) -> bool:
    return byte == 95 or 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122
