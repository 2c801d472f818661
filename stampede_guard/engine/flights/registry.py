"""The open flights of one event loop: by place, and by entry."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from stampede_guard.core.scripts import Message

if TYPE_CHECKING:
    from stampede_guard.engine.flights.flight import Flight

__all__ = ["Flights", "bypassed_name"]


def bypassed_name(name: str) -> str:
    """The place of a flight that never asks the store. It is kept apart from flights that do.

    The mode may change while both kinds are open. In a flight of mode `on`, a caller in mode `bypass` would wait for
    the store. In a flight of mode `bypass`, a caller in mode `on` might get a value from before an invalidation that
    another process has made.
    """
    return f"bypassed {name}"


class Flights(dict[str, "Flight"]):
    """Flights by place. The place of the one flight that callers find is the entry's name.

    Other flights of the same entry are set apart. Each serves a single caller, and other callers do not find it. But
    messages about the entry concern it, too.
    """

    def __init__(self) -> None:
        self.late: set[str] = set()
        """Entries whose next flight is for a caller that has already waited for the store and got no answer."""
        self._apart: dict[str, dict[str, Flight]] = {}
        """By name, then by place: thousands of flights may be set apart, and each lands by itself."""

    def add(self, flight: Flight) -> None:
        self[flight.place] = flight
        if flight.place != flight.name:
            self._apart.setdefault(flight.name, {})[flight.place] = flight

    def set_apart(self, flight: Flight) -> None:
        """The flight goes on, but callers no longer find it."""
        self.forget(flight)
        flight.place = f"{flight.name}\0{flight.id}"
        self.add(flight)

    def forget(self, flight: Flight) -> None:
        if self.get(flight.place) is flight:
            del self[flight.place]
            if flight.place != flight.name:
                del self._apart[flight.name][flight.place]
                if not self._apart[flight.name]:
                    del self._apart[flight.name]

    def of(self, name: str) -> list[Flight]:
        """All flights of an entry: the one that callers find, then those set apart, the oldest first."""
        found = self.get(name)
        apart = self._apart.get(name, {}).values()
        return list(apart) if found is None else [found, *apart]

    def concerned(self, name: str, message: Message) -> list[Flight]:
        """The flights that receive a message. The message "ask again" goes to two flights that do not compute.

        It means that one place has become free. The second flight finds it taken, and so receives the message about the
        next place. The other flights poll, every `poll_interval`. If all of them received the message, a hundred
        flights would ask for each place.
        """
        if message.kind != "again" or name not in self._apart:
            return self.of(name)
        found = self.get(name)
        if found is None and len(self._apart[name]) == 1:
            return self.of(name)
        known = itertools.chain([found] if found is not None else [], self._apart[name].values())
        return list(itertools.islice((flight for flight in known if not flight.computing), 2))
