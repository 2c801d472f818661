"""A search of a file's bytes for words. Most files end here, undecoded and unparsed."""

from __future__ import annotations

import re
from functools import cache, cached_property

from stampede_guard.audit.caching.traces import Traces
from stampede_guard.audit.files.definitions import Definitions

# One of these must occur. Patterns begin with literal text, so they are as fast as a search for it.
Hint = tuple[bytes | re.Pattern[bytes], ...]

# A file that uses a cache or a store of keys contains one of these.
STORES: Hint = (b"cache", b"Cache", b"CACHE", b"redis", b"Redis", b"REDIS", b"valkey", b"memc", b".setex(")

# If one of these is missing, all words that contain it are missing. So one search answers for many words.
_STEMS = (
    *(b"cache", b"redis", b"ache", b"edis", b"memo", b"lock", b"Lock", b"LOCK", b"async", b"nx", b"NX"),
    *(b"delete", b"create", b"start", b"_task", b"before_", b"mc"),
)


class Text:
    """Results are kept, because several rules search for the same words."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._known: dict[object, bool] = {}

    def has_any(self, hint: Hint) -> bool:
        known = self._known.get(hint)
        if known is None:
            known = self._known[hint] = any(map(self._has, hint))
        return known

    @cached_property
    def traces(self) -> Traces:
        return Traces(self.data)

    @cached_property
    def definitions(self) -> Definitions:
        return Definitions(self.data)

    def _has(self, word: bytes | re.Pattern[bytes]) -> bool:
        known = self._known.get(word)
        if known is None:
            if isinstance(word, bytes):
                stem = _stem(word)
                known = (stem is None or self._has(stem)) and word in self.data
            else:
                known = word.search(self.data) is not None
            self._known[word] = known
        return known


@cache
def _stem(word: bytes) -> bytes | None:
    return next((stem for stem in _STEMS if stem in word and stem != word), None)
