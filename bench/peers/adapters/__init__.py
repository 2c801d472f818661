"""One file per peer. `ADAPTERS` is in the order of the table."""

from __future__ import annotations

from typing import Final

from bench.peers.adapter import Adapter
from bench.peers.adapters.aiocache import Aiocache
from bench.peers.adapters.async_hybrid_cache import AsyncHybridCache, AsyncHybridCacheWithoutL1
from bench.peers.adapters.cachefence import Cachefence
from bench.peers.adapters.cachekit import Cachekit, CachekitWithoutL1
from bench.peers.adapters.cashews import Cashews
from bench.peers.adapters.dialcache import Dialcache
from bench.peers.adapters.dogpile_breaker import DogpileBreaker
from bench.peers.adapters.dogpile_cache import DogpileCache
from bench.peers.adapters.fastapi_cache2 import FastapiCache2
from bench.peers.adapters.incident_fix import IncidentFix
from bench.peers.adapters.naive import Naive
from bench.peers.adapters.ours import Ours
from bench.peers.adapters.py_cachify import PyCachify

__all__ = ["ADAPTERS", "TABLE"]

_ALL: Final[tuple[type[Adapter], ...]] = (
    Naive, IncidentFix, Cashews, Aiocache, DogpileCache, DogpileBreaker, Cachekit, CachekitWithoutL1, Cachefence,
    Dialcache, AsyncHybridCache, AsyncHybridCacheWithoutL1, FastapiCache2, PyCachify, Ours,
)  # fmt: skip

ADAPTERS: Final[dict[str, type[Adapter]]] = {adapter.about.name: adapter for adapter in _ALL}

_STAND_INS: Final = {adapter.about.hits_by for adapter in _ALL}
TABLE: Final = tuple(name for name in ADAPTERS if name not in _STAND_INS)
"""The rows of the table. A stand-in has none of its own."""
