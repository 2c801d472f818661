"""New locks in forked children: a lock that a thread of the parent held is never released in the child."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["renew_in_children"]

_renewed: dict[tuple[int, str], tuple[weakref.ref[Any], str, Callable[[], Any]]] = {}
"""The key is the owner's identity and the attribute's name, because an owner need not be hashable."""


def renew_in_children(owner: Any, attribute: str, make: Callable[[], Any] = threading.Lock) -> None:
    """In every forked child, set `owner.attribute` to the result of `make()`, as long as the owner lives.

    `owner` is an object or a module. A thread that holds the lock does not exist in the child, so its step stays half
    done there. Use this only for steps that leave no partial state behind.
    """
    place = (id(owner), attribute)
    _renewed[place] = (weakref.ref(owner, lambda _: _renewed.pop(place, None)), attribute, make)


def _after_fork() -> None:
    for owner, attribute, make in list(_renewed.values()):
        found = owner()
        if found is not None:
            setattr(found, attribute, make())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
