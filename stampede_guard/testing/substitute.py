"""Replaces the store of an existing guard for the time of a test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.errors import Misuse
from stampede_guard.options import ALL, takes_options

__all__ = ["on_store"]


@takes_options("on_store", own=ALL)
@contextlib.contextmanager
def on_store(guard: StampedeGuard, store: Any) -> Iterator[Any]:
    """Within the block, `guard` and all functions decorated with it use this store: a `MemoryStore`, a
    `FaultyStore`.

    Open sessions on the guard's own store stay untouched and are back afterwards. Raises `Misuse` if `guard` is not
    a guard.
    """
    if not isinstance(guard, StampedeGuard):
        raise Misuse(f"on_store() takes a StampedeGuard and a store, not a {type(guard).__name__}")
    if not hasattr(store, "open_session"):
        raise Misuse(f"on_store() takes a store, for example FaultyStore(), not a {type(store).__name__}")
    with guard.engine.store.replaced_by(store):
        yield store
