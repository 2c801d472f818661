"""The functions that a guard has decorated, by name: a name belongs to one definition.

Two functions of one name would be served each other's values. So the second is an error where it is decorated, unless
it is the first one again: see `definition` for what that means. A name is never given free. That a function is gone
says nothing of its entries: the next one of its name would be served them. So what is remembered is bounded by an
error, and not by forgetting; functions that come and go under one name cost nothing.

Tenants (`guard.within`) are in the registry of the guard that they are within: each has names of its own.
"""

from __future__ import annotations

from stampede_guard.definition import Definition
from stampede_guard.errors import KeyPartError

__all__ = ["MOST_NAMES", "Registry"]

MOST_NAMES = 50_000
"""Per guard, its tenants included."""


class Registry:
    """Without a lock, so that a fork leaves none behind: all that is done to the dictionaries is done in one step."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], Definition] = {}
        self._latest: dict[str, Definition] = {}

    def __len__(self) -> int:
        return len(self._functions)

    def add(self, namespace: str, name: str, definition: Definition, *, shared: bool = False) -> None:
        """Raises `KeyPartError` if the name is that of another function in this namespace.

        `shared`: other processes see the entries, so a name must mean the same there.
        """
        if shared and definition.nameless:
            raise KeyPartError(
                f"{name}() was typed at a prompt, in a notebook, or given with -c or on stdin. The store is shared "
                "with others that may have such a function: give it a name of its own, name='...', or put it in a file",
                parameter="name",
            )
        known = self._functions.get((namespace, name))
        if known is None:
            if len(self._functions) >= MOST_NAMES:
                raise KeyPartError(_too_many(name), parameter="name")
            # Many tenants may have the same function: one definition is kept for all of them.
            latest = self._latest.setdefault(name, definition)
            if latest.is_like(definition):
                definition = latest
            known = self._functions.setdefault((namespace, name), definition)
        if known is definition:
            return
        if not known.same(definition):
            raise KeyPartError(_taken(name, known, definition), parameter="name")
        if definition.is_newer_than(known):
            self._functions[namespace, name] = self._latest[name] = definition

    def add_all(self, namespace: str, others: Registry, *, shared: bool) -> None:
        """Those of another registry. Raises `KeyPartError`."""
        for (_, name), definition in list(others._functions.items()):
            self.add(namespace, name, definition, shared=shared)


def _taken(name: str, known: Definition, second: Definition) -> str:
    first_place, second_place = known.beside(second)
    if known.same_function(second):
        return (
            f"{name}() is cached twice by one guard with different options: first at {first_place}, then at "
            f"{second_place}. Both would share their entries. Decorate it once, or give one of them a name of its own: "
            f"name='{_example(name)}'"
        )
    cure = f"Give one of them a name of its own: name='{_example(name)}'."
    if "<locals>" in name:
        cure += (
            " A function made inside another has the same name each time: say in its name what differs, or make that "
            "a parameter, which is then part of the key. A decorator should have @functools.wraps on its wrapper, "
            "which then has the name of what it wraps."
        )
    return (
        f"two functions of one guard are called {name}: one at {first_place}, another at {second_place}. They would "
        f"be served each other's values. {cure}"
    )


def _example(name: str) -> str:
    return f"{name.replace('<locals>.', '').replace('<', '').replace('>', '')}.2"


def _too_many(name: str) -> str:
    return (
        f"{name}: this guard has cached functions under {MOST_NAMES} names, which is the most, and forgets none. Names "
        "made for each call do that: cache one function and make what differs a parameter, or use "
        "guard.get_or_compute(key, ...), of whose keys there may be any number"
    )
