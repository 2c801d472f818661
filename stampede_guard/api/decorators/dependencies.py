"""What the factories in `resources=` need, as FastAPI's `Depends` declares it, and in which order it is made.

Nothing of FastAPI is imported: its markers are recognised by their names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stampede_guard.errors import Misuse
from stampede_guard.values.annotations import alternatives, resolve, root_package
from stampede_guard.values.arguments.signatures import signature_of

__all__ = ["Overridden", "Step", "check_resources", "steps_of"]

_OF_A_REQUEST = frozenset(
    {
        "HTTPConnection",
        "Request",
        "WebSocket",
        "Response",
        "BackgroundTasks",
        "BackgroundTask",
        "SecurityScopes",
    }
)
_MOST_LEVELS = 50


class Step(NamedTuple):
    """One call: of a factory, with the results of earlier steps for some of its parameters.

    `resource` is the name of the parameter of the cached function; None for what only another factory needs.
    """

    factory: Callable[..., Any]
    needs: Mapping[str, int]
    resource: str | None


class _Needed(NamedTuple):
    factory: Any
    shared: bool


def check_resources(title: str, resources: Mapping[str, Any]) -> None:
    """Raise `Misuse` for what is no factory, and for a factory that needs something that only a request has."""
    for name, given in resources.items():
        if not callable(_unmarked(given)):
            raise Misuse(
                f"resources={{{name!r}: ...}} of {title} takes a factory, which opens {name!r} for each computation, "
                f"not a {type(given).__name__}: write a function without parentheses, "
                f"resources={{{name!r}: open_{name}}}"
            )
    try:
        _StepsInOrder(lambda factory: factory).add_all(resources)
    except _Missing as problem:
        raise Misuse(
            f"resources={{{problem.resource!r}: ...}} of {title}: {problem} The computation outlives requests. Pass "
            f"what it needs as a parameter of the cached function, so that the key holds it, or give a factory "
            f"without it."
        ) from None


Overridden = Callable[[Any], Any]
"""What stands in the place of a dependency now: itself, or its override."""


def steps_of(resources: Mapping[str, Any], overridden: Overridden) -> tuple[list[Step], dict[str, int]]:
    """The calls that make these resources now, and the number of each resource's step.

    A factory that several others need is called once. Raises `Misuse` if an override needs something that only a
    request has.
    """
    made = _StepsInOrder(overridden)
    try:
        return made.steps, made.add_all(resources)
    except _Missing as problem:
        raise Misuse(f"the resource {problem.resource!r} cannot be made: {problem}") from None


class _Missing(Exception):
    resource = ""


class _StepsInOrder:
    def __init__(self, standing_for: Callable[[Any], Any]) -> None:
        self.steps: list[Step] = []
        self._standing_for = standing_for
        self._known: dict[Any, int] = {}

    def add_all(self, resources: Mapping[str, Any]) -> dict[str, int]:
        found = {}
        for name, factory in resources.items():
            try:
                found[name] = self._add(_Needed(_unmarked(factory), shared=True), name, 0)
            except _Missing as problem:
                problem.resource = name
                raise
        return found

    def _add(self, needed: _Needed, resource: str | None, level: int) -> int:
        if level > _MOST_LEVELS:
            raise _Missing(f"{_title(needed.factory)} depends on itself.")
        shared = needed.shared and _is_hashable(needed.factory)
        if shared and needed.factory in self._known:
            return self._known[needed.factory]
        factory = self._standing_for(needed.factory)
        needs = {name: self._add(inner, None, level + 1) for name, inner in _needs(factory).items()}
        self.steps.append(Step(factory, needs, resource))
        number = len(self.steps) - 1
        if shared:
            self._known[needed.factory] = number
        return number


def _is_hashable(factory: Any) -> bool:
    try:
        hash(factory)
    except TypeError:
        return False
    return True


def _unmarked(given: Any) -> Any:
    """`get_db` for `Depends(get_db)`."""
    return given.dependency if _is_depends(given) else given


def _is_depends(value: Any) -> bool:
    return _is_of_fastapi(value) and any(base.__name__ == "Depends" for base in type(value).__mro__)


def _is_of_fastapi(value: Any) -> bool:
    return any(base.__module__ == "fastapi.params" for base in type(value).__mro__)


def _needs(factory: Any) -> Mapping[str, _Needed]:
    try:
        return _needs_of_hashable(factory)
    except TypeError:
        return _find_needs(factory)


def _find_needs(factory: Any) -> dict[str, _Needed]:
    try:
        parameters = signature_of(factory).parameters
    except (TypeError, ValueError):  # written in C
        return {}
    hints = _hints(factory)
    found = {}
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        hint, required = hints.get(name, parameter.annotation), parameter.default is parameter.empty
        markers = [parameter.default, *getattr(hint, "__metadata__", ())]
        marker = next((marker for marker in markers if _is_depends(marker)), None)
        if marker is not None:
            # `Depends()` means the annotated class.
            dependency = marker.dependency
            wanted = getattr(hint, "__origin__", hint) if dependency is None else dependency
            found[name] = _Needed(wanted, getattr(marker, "use_cache", True))
        elif any(map(_is_of_fastapi, markers)) or (required and _is_of_a_request(hint)):
            raise _Missing(f"{_title(factory)} takes {name!r} from a request.")
        elif required and inspect.isroutine(factory):
            raise _Missing(f"nothing gives {name!r} to {_title(factory)}.")
    return found


_needs_of_hashable = functools.lru_cache(maxsize=1024)(_find_needs)


def _hints(factory: Any) -> dict[str, Any]:
    while isinstance(factory, functools.partial):
        factory = factory.func
    if isinstance(factory, type):
        return resolve(factory.__init__)  # type: ignore[misc]
    return resolve(factory if inspect.isroutine(factory) else type(factory).__call__)


def _is_of_a_request(hint: Any) -> bool:
    return any(
        base.__name__ in _OF_A_REQUEST and root_package(base) in ("starlette", "fastapi")
        for kind in alternatives(hint)
        if isinstance(kind, type)
        for base in kind.__mro__
    )


def _title(factory: Any) -> str:
    return f"{getattr(factory, '__qualname__', None) or type(factory).__qualname__}()"
