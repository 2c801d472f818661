"""What a forked child must let go of at once: connections of which it has a copy, and which its parent goes on using.

At once, because an event loop's selector is shared with the parent by the kernel: a copied socket that the child closes
later, when it collects its garbage, would be taken out of the parent's loop, which would never hear from it again.
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
    """`holder.abandon()` is called in every forked child, for as long as the holder lives."""
    _holders.add(holder)


def _after_fork() -> None:
    for holder in list(_holders):
        holder.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
