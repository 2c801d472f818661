"""What a screen of the console is: an address, its parameters, its data and what may be done there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse

if TYPE_CHECKING:
    from stampede_guard.ops.console.fleet import Fleet

__all__ = ["Action", "Asked", "Parameter", "ConsoleScreen", "checked"]

LONGEST = 1_000
"""Characters of one parameter, unless it says less."""

Asked = Mapping[str, str]
"""The checked parameters of a request, each with its default if it was not given."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query. `choices` empty: any text up to `longest` characters. `number`: a whole number."""

    name: str
    about: str
    default: str = ""
    choices: tuple[str, ...] = ()
    longest: int = LONGEST
    number: tuple[int, int] | None = None
    """The lowest and the highest allowed."""
    required: bool = False

    def checked(self, given: str | None) -> str:
        """Raises `Misuse`."""
        if given is None or given == "":
            if self.required:
                raise Misuse(f"{self.name}= is missing: {self.about}")
            return self.default
        if self.choices and given not in self.choices:
            raise Misuse(f"{self.name} must be one of {', '.join(self.choices)}")
        if len(given) > self.longest:
            raise Misuse(f"{self.name} has at most {self.longest} characters")
        if self.number is not None:
            low, high = self.number
            if not (given.isascii() and given.isdigit() and len(given) < 16 and low <= int(given) <= high):
                raise Misuse(f"{self.name} must be a whole number from {low} to {high}")
        return given


@dataclass(frozen=True, slots=True)
class Action:
    """`name`: the right, as `actions=` names it. `about`: what it does, for people who allow it.

    `do(fleet, asked)` gets the parameters, and the user's name as `by`. It returns one sentence about what was done.
    Raises `Misuse` if the form is wrong, and `StoreError`.
    """

    name: str
    about: str
    do: Callable[[Fleet, Asked], Awaitable[str]]
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsoleScreen:
    """`name`: its path and its template. `listed`: in the navigation. `data(fleet, asked)`: see the package.

    `below`: for a page that is not listed, the listed one that leads to it.
    `streams`: an open page is rendered anew every few seconds. Not for a page that costs the servers much.
    """

    name: str
    title: str
    about: str
    data: Callable[[Fleet, Asked], Awaitable[dict[str, Any]]]
    parameters: tuple[Parameter, ...] = ()
    actions: tuple[Action, ...] = ()
    listed: bool = True
    below: str = ""
    streams: bool = True

    @property
    def path(self) -> str:
        """Below the console's root. The overview is the root itself."""
        return "/" if self.name == "overview" else f"/{self.name}"


def checked(parameters: tuple[Parameter, ...], given: Mapping[str, str]) -> Asked:
    """The declared parameters; others are ignored. Raises `Misuse`."""
    return {one.name: one.checked(given.get(one.name)) for one in parameters}
