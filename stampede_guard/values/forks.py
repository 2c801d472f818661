"""What a forked child must do at once: replace locks, let go of copied sockets.

A lock that a thread of the parent held is never released in the child. A copied socket belongs to the parent, which
goes on using it. Why the child lets go of it at once: the kernel shares the selector of the event loop between both.
1. the child's garbage collector closes a copied socket, 2. this removes it from the shared selector, 3. the parent's
loop receives no further events for that socket.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["abandon_in_children", "in_children", "let_go", "renew_in_children"]


class _Holder(Protocol):
    def abandon(self) -> None: ...


_renewed: dict[tuple[int, str], tuple[weakref.ref[Any], str, Callable[[], Any]]] = {}
"""The key is the owner's identity and the attribute's name, because an owner need not be hashable."""
_holders: weakref.WeakSet[_Holder] = weakref.WeakSet()


def in_children(call: Callable[[], None]) -> Callable[[], None]:
    """Run `call()` in every forked child. A decorator of a module's function."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)
    return call


def renew_in_children(owner: Any, attribute: str, make: Callable[[], Any] = threading.Lock) -> None:
    """In every forked child, set `owner.attribute` to the result of `make()`, as long as the owner lives.

    `owner` is an object or a module. A thread that holds the lock does not exist in the child, so its step stays half
    done there. Use this only for steps that leave no partial state behind.
    """
    place = (id(owner), attribute)
    _renewed[place] = (weakref.ref(owner, lambda _: _renewed.pop(place, None)), attribute, make)


def abandon_in_children(holder: _Holder) -> None:
    """Call `holder.abandon()` in every forked child, as long as the holder object exists."""
    _holders.add(holder)


def let_go(socket: Any) -> None:
    """Close a copied socket in the child, without sending anything to the server. None: there is no socket.

    The descriptor's number stays taken: it now points to the null device. The copied objects close the number once more
    when they are collected. A free number could belong to another file by then.
    """
    if socket is None or socket.fileno() < 0:
        return
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(nowhere, socket.fileno(), inheritable=False)
    finally:
        os.close(nowhere)


@in_children
def _after_fork() -> None:
    for owner, attribute, make in list(_renewed.values()):
        found = owner()
        if found is not None:
            setattr(found, attribute, make())
    for holder in list(_holders):
        holder.abandon()
