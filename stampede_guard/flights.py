"""The flights that are under way in one event loop: by place, and by the entry that they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampede_guard.core.scripts import Message

if TYPE_CHECKING:
    from stampede_guard.flight import Flight

__all__ = ["Flights"]


class Flights(dict[str, "Flight"]):
    """By place, which is the entry's name for the one flight that callers find.

    Others of the same entry fly apart, each for a single caller, and nobody finds them. But what is said of the entry
    concerns them, too.
    """

    def __init__(self) -> None:
        self._apart: dict[str, list[Flight]] = {}

    def add(self, flight: Flight) -> None:
        self[flight.place] = flight
        if flight.place != flight.name:
            self._apart.setdefault(flight.name, []).append(flight)

    def set_apart(self, flight: Flight) -> None:
        """It goes on, and callers find it no more."""
        self.forget(flight)
        flight.place = f"{flight.name}\0{flight.id}"
        self.add(flight)

    def forget(self, flight: Flight) -> None:
        if self.get(flight.place) is flight:
            del self[flight.place]
            if flight.place != flight.name:
                self._apart[flight.name].remove(flight)
                if not self._apart[flight.name]:
                    del self._apart[flight.name]

    def of(self, name: str) -> list[Flight]:
        """All flights of an entry, those that have waited longest first."""
        found = self.get(name)
        apart = self._apart.get(name, [])
        return list(apart) if found is None else [found, *apart]

    def concerned(self, name: str, message: Message) -> list[Flight]:
        """Whom to tell of it. That there is something to ask for again is told to two of those that do not compute.

        What has become free is one place. The second of them finds it taken, and so is told of the next one; the others
        look for themselves, every `poll_interval`. Were all told, a hundred would ask for each place.
        """
        flights = self.of(name)
        if message.kind != "again" or len(flights) < 2:
            return flights
        return [flight for flight in flights if not flight.computing][:2]
