"""`assert_same_in_clean_context`: checks that a cached function reads no context variable outside its key."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from stampede_guard.errors import Misuse
from stampede_guard.options import takes_options
from stampede_guard.testing.counting import face_of, name_of

__all__ = ["assert_same_in_clean_context"]

_OURS = "stampede_guard"


@takes_options("assert_same_in_clean_context")
async def assert_same_in_clean_context(
    function: Any, *, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Compute twice, in the context of this test and in the clean one that a computation gets, and compare.

    Set the context variables of a request first, to values other than their defaults: the tenant, the user, the
    locale. Without `context=`, a function finds the default of such a variable in the clean context. Its result is
    then stored for all callers. Nothing is cached here: the function itself is called, four times or more if the
    results differ. Returns the result.

    Raises `AssertionError` if the results differ or only one of the two raises. The message names the variables
    that make the difference and shows no values. Raises `Misuse` if the function is not cached, or if no variable
    is set.
    """
    face = face_of(function)
    if face is None:
        raise Misuse(f"{name_of(function)} is not a cached function: give the decorated one")
    # A method of an object or a class: the bound object is the first argument.
    first = function.args if isinstance(function, functools.partial) else ()
    call = functools.partial(face._start, (*first, *args), dict(kwargs or {}))
    named = set(face._options.context)
    full = contextvars.copy_context()
    others = [variable for variable in full if variable not in named and not variable.name.startswith(_OURS)]
    if not others:
        raise Misuse(
            "no context variable is set that context= does not name, so both contexts would be the same: set those of "
            "a request first, to values that are not their defaults"
        )
    here = await _outcome(call, full)
    clean = await _outcome(call, _context(full, named))
    if _same(here, clean):
        return here.get()
    await _refuse_randomness(call, full, here, name_of(function))
    blamed = [
        variable.name
        for variable in others
        if not _same(clean, await _outcome(call, _context(full, named | {variable})))
    ]
    which = ", ".join(sorted(blamed)) or "several of " + ", ".join(sorted(other.name for other in others))
    raise AssertionError(
        f"{name_of(function)} gives another result in a clean context: it reads {which}, and context= does not name "
        f"that. For everybody the computation finds the default, or nothing. Name the variables: "
        f"context=({which.partition(', ')[0]}, ...), or pass their values as parameters"
    )


class _Outcome:
    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


async def _outcome(call: Any, context: contextvars.Context) -> _Outcome:
    async def compute() -> Any:
        return await call()()

    task = asyncio.get_running_loop().create_task(compute(), context=context.copy())
    try:
        return _Outcome(await task)
    except Exception as error:
        return _Outcome(error=error)


def _context(full: contextvars.Context, variables: set[ContextVar[Any]]) -> contextvars.Context:
    context = contextvars.Context()
    for variable in variables & set(full):
        context.run(variable.set, full[variable])
    return context


def _same(one: _Outcome, other: _Outcome) -> bool:
    if one.error is not None or other.error is not None:
        return type(one.error) is type(other.error) and str(one.error) == str(other.error)
    return type(one.value) is type(other.value) and bool(one.value == other.value)


async def _refuse_randomness(call: Any, full: contextvars.Context, here: _Outcome, name: str) -> None:
    if not _same(here, await _outcome(call, full)):
        raise Misuse(
            f"{name} returns another result at each call, even in one context (a time, a random number, an object "
            f"without ==): make it return the same, and the two contexts can be compared"
        )
