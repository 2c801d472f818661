"""One call of a decorated function: it computes with the very arguments that its key was made of.

The key is made when the function is called. The computation may begin much later: after a read, in the background, for
somebody else, in a thread. By then the caller may have changed what it passed (`filters["page"] += 1`). So a call that
leads to a computation takes copies, before it gives up control, and looks whether they still make the same key. A hit
copies nothing.

What cannot be copied (`self`, an object with a `__cache_key__`, a request given to `key=`) is looked at again when the
computation has ended. If the key is another one by then, nobody knows what was computed: it is stored under no key, and
only the caller whose own call it was gets it. All others ask again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import UnsupportedValue
from stampede_guard.keys.captured import Copying
from stampede_guard.tagged import TaggedRun

if TYPE_CHECKING:
    from stampede_guard.keys import KeyBuilder
    from stampede_guard.plan import Plan, Run, Variables

__all__ = ["ArgumentsChanged", "Call", "captured", "following", "served_again", "unchanged"]

MOST_ATTEMPTS = 3
"""Calls that are asked again because their arguments change meanwhile, before they are computed without the store."""


class ArgumentsChanged(Exception):
    """A call's key is no longer that of its arguments. Never seen by callers: the call is made again."""


class Call:
    """`start` makes the computation of given arguments. `build` makes a key of them, in the current context."""

    __slots__ = (
        "_args", "_key", "_keys", "_kwargs", "_live", "_plan", "_start", "_variables", "answered", "value",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        keys: KeyBuilder,
        start: Callable[[Any, Any], Run],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: str,
    ) -> None:
        self.answered = False
        """Whether `value` was computed for this call, although under no key."""
        self.value: Any = None
        self._plan = plan
        self._keys = keys
        self._start = start
        self._args = args
        self._kwargs = kwargs
        self._key = key
        self._live = False
        self._variables: Variables | None = None

    def __call__(self) -> Awaitable[Any]:
        self._keys.fitted.note(self._args, self._kwargs)
        started = self._start(self._args, self._kwargs)
        return self._and_look_again(started) if self._live else started()

    async def _and_look_again(self, run: Run) -> Any:
        value = await run()
        if not self.unchanged():
            self.value, self.answered = value, True
            raise ArgumentsChanged
        return value

    def unchanged(self) -> bool:
        """Whether the arguments still make the key that the call was made with."""
        try:
            return self._keys.build(self._args, self._kwargs) == self._key
        except Exception:  # what a class's own methods raise; it made a key before
            return False

    def take(self) -> Variables:
        """Copy what may change, in the caller's context and turn. The context variables that the computation sees.

        Raises `ArgumentsChanged` if the key is another one already.
        """
        if self._variables is not None:
            return self._variables
        copying = Copying(objects=not self._keys.replaced)
        with contextlib.suppress(RuntimeError):  # another thread changes it at this moment
            args, kwargs = self._keys.copied(copying, self._args, self._kwargs)
            variables = tuple([(variable, copying.of(value)) for variable, value in self._plan.capture()])
            with contextlib.suppress(Exception):
                # In the context of the computation, so that what it sees of the variables is held against the key, too.
                if self._plan.clean_context(variables).run(self._keys.build, args, kwargs) == self._key:
                    self._args, self._kwargs, self._live = args, kwargs, copying.live
                    self._variables = variables
                    return variables
        if not self.unchanged():
            raise ArgumentsChanged
        # The copies are not what was copied: a class copies itself in a way of its own.
        self._live = True
        self._variables = self._plan.capture()
        return self._variables


def _call_of(run: Run) -> Any:
    return run.run if type(run) is TaggedRun else run


def captured(plan: Plan, run: Run) -> Variables:
    """The context variables for a computation of `run`, whose arguments are taken now. Raises `ArgumentsChanged`."""
    take = getattr(_call_of(run), "take", None)
    return plan.capture() if take is None else take()


def unchanged(run: Run) -> bool:
    """Whether a computation that read its caller's own arguments was one of what the key says."""
    look = getattr(_call_of(run), "unchanged", None)
    return look is None or bool(look())


def following(inner: Any, run: Run) -> Any:
    """`inner` awaits `run`: its arguments are taken with it."""
    take = getattr(_call_of(run), "take", None)
    if take is not None:
        inner.take = take
    return inner


async def served_again(
    plan: Plan,
    run: Run,
    ask: Callable[[], tuple[Run, Awaitable[Any]]],
    directly: Callable[[], Awaitable[Any]],
) -> Any:
    """A right answer for a caller whose arguments, or those of whom it waited for, were changed meanwhile.

    `ask` makes the call anew, with the arguments as they are then; `directly` computes without the store.
    """
    for _ in range(MOST_ATTEMPTS):
        call = _call_of(run)
        if getattr(call, "answered", False):
            return _as_others_get_it(plan, call.value)
        run, served = ask()
        try:
            return await served
        except ArgumentsChanged:
            continue
    call = _call_of(run)
    if getattr(call, "answered", False):
        return _as_others_get_it(plan, call.value)
    context = plan.clean_context(plan.capture())
    task = asyncio.get_running_loop().create_task(_awaited(directly), context=context)
    return _as_others_get_it(plan, await task)


async def _awaited(compute: Callable[[], Awaitable[Any]]) -> Any:
    return await compute()


def _as_others_get_it(plan: Plan, value: Any) -> Any:
    """With the declared type and its filter."""
    try:
        return plan.decode(plan.codec.encode(value))
    except UnsupportedValue:
        return value
