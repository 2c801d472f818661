"""One call's way through a cluster: the reaction to MOVED, ASK, TRYAGAIN and CLUSTERDOWN, and how often it is sent.

Source: "Redis Cluster Specification", Redirection and resharding.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from stampede_guard.stores.connections.lane import LaneCall
from stampede_guard.stores.connections.slots import Address, slot_of

__all__ = ["Network", "Route"]

REDIRECTIONS = 5
"""How often one call is sent again because its keys are on another node, or soon may be."""
PAUSE = 0.05
"""Seconds before a call is sent again to a slot that moves or has no master. Each further pause is as much longer."""


class Network(Protocol):
    """The calls of the session that a route uses."""

    def dispatch(self, route: Route, call: LaneCall) -> None:
        """Send a call to the master of its slot, as soon as that master is known."""

    def moved(self, slot: int, address: Address) -> None:
        """A node reported the current holder of the slot."""

    def ask(self, route: Route, address: Address, call: LaneCall) -> None:
        """Send the call there this one time: the slot is being moved."""

    def unsettled(self) -> None:
        """A node reported that the cluster, or a slot, is not served now."""


class Route:
    """One call's way through the cluster, with the number of times that it may still be sent again."""

    __slots__ = ("_left", "_session", "name", "renewal", "slot")

    def __init__(self, session: Network, name: str, *, renewal: bool = False) -> None:
        self._session = session
        self.name = name
        self._left = REDIRECTIONS
        self.renewal = renewal
        self.slot = slot_of(name)

    def send(self, call: LaneCall) -> None:
        self._session.dispatch(self, call)

    def again(self, call: LaneCall, error: ResponseError) -> bool:
        """Whether the call is sent again for this answer."""
        if self._left == 0:
            return False
        tries = REDIRECTIONS - self._left
        match error:
            case MovedError():
                self._session.moved(self.slot, (error.host, error.port))
                self.send(call)
            case AskError():
                self._session.ask(self, (error.host, error.port), call)
            case TryAgainError():
                asyncio.get_running_loop().call_later(PAUSE * (tries + 1), self.send, call)
            case ClusterDownError():
                self._session.unsettled()
                asyncio.get_running_loop().call_later(PAUSE * (tries + 1), self.send, call)
            case ReadOnlyError():
                self._session.unsettled()
                return False
            case _:
                return False
        self._left -= 1
        return True
