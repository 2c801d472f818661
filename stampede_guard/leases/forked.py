"""A forked child must abandon its copies of connections at once, because the parent continues to use them.

The reason for "at once": the kernel shares the event loop's selector between parent and child.
1. the child's garbage collector closes a copied socket, 2. this removes it from the shared selector, 3. the parent's
loop receives no further events for that socket.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["let_go_in_children"]


class _Holder(Protocol):
    def abandon(self) -> None: ...


_holders: weakref.WeakSet[_Holder] = weakref.WeakSet()


def let_go_in_children(holder: _Holder) -> None:
    """Call `holder.abandon()` in every forked child, as long as the holder object exists."""
    _holders.add(holder)


def _after_fork() -> None:
    for holder in list(_holders):
        holder.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
