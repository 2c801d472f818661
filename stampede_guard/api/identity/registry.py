"""The functions that a guard has decorated, by name. A name belongs to one definition.

Two functions with one name would receive each other's values. So decorating the second one is an error, unless it is
the first one again: see `definition` for the comparison. A name is never freed. The entries of a deleted function still
exist, and the next function with its name would receive them. So the registry is limited by an error, and never
forgets. Functions that come and go under one name cost nothing.

Tenants (`guard.within`) share the registry of their guard. Each has its own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stampede_guard.api.identity.definition import Definition
from stampede_guard.errors import KeyPartError

__all__ = ["MOST_NAMES", "Registry"]

MOST_NAMES = 50_000
"""Per guard, including its tenants."""


class Registry:
    """Has no lock, so that a fork leaves none held: each change of the dictionaries is one step."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], Definition] = {}
        self._latest: dict[str, Definition] = {}

    def __len__(self) -> int:
        return len(self._functions)

    def add(self, namespace: str, name: str, definition: Definition, *, shared: bool = False) -> None:
        """Raises `KeyPartError` if another function in this namespace has the name.

        `shared`: other processes see the entries, so a name must mean the same in each of them.
        """
        if shared and definition.nameless:
            raise KeyPartError(
                f"{name}() was typed at a prompt, in a notebook, or given with -c or on stdin. Other processes share "
                "the store and may have such a function too: give it its own name, name='...', or put it in a file",
                parameter="name",
            )
        known = self._functions.get((namespace, name))
        if known is None:
            if len(self._functions) >= MOST_NAMES:
                raise KeyPartError(_too_many(name), parameter="name")
            # Many tenants may have the same function. One definition is kept for all of them.
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

    def fields_of(self, namespace: str) -> dict[str, Mapping[str, Any]]:
        """The fields of a policy that the decorators in this namespace name, by function."""
        return {name: one.fields for (home, name), one in list(self._functions.items()) if home == namespace}

    def add_all(self, namespace: str, others: Registry, *, shared: bool) -> None:
        """Add the functions of another registry. Raises `KeyPartError`."""
        for (_, name), definition in list(others._functions.items()):
            self.add(namespace, name, definition, shared=shared)


def _taken(name: str, known: Definition, second: Definition) -> str:
    first_place, second_place = known.beside(second)
    if known.same_function(second):
        return (
            f"{name}() is cached twice by one guard with different options: first at {first_place}, then at "
            f"{second_place}. Both would share their entries. Decorate it once, or give one of them its own name: "
            f"name='{_example(name)}'"
        )
    cure = f"Give one of them its own name: name='{_example(name)}'."
    if "<locals>" in name:
        cure += (
            " A function made inside another has the same name each time: put the difference into its name, or make it "
            "a parameter, which is then part of the key. A decorator should use @functools.wraps on its wrapper, "
            "which then has the name of the wrapped function."
        )
    return (
        f"two functions of one guard are called {name}: one at {first_place}, another at {second_place}. They would "
        f"receive each other's values. {cure}"
    )


def _example(name: str) -> str:
    return f"{name.replace('<locals>.', '').replace('<', '').replace('>', '')}.2"


def _too_many(name: str) -> str:
    return (
        f"{name}: this guard has cached functions under {MOST_NAMES} names. This is the limit, and names are never "
        "freed. The cause is often a name made for each call: cache one function and make the difference a parameter, "
        "or use guard.get_or_compute(key, ...), whose number of keys is not limited"
    )
