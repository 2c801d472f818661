"""One call of a decorated function: it computes with the same arguments that made its key.

A call makes the key at once. The computation may begin much later: after a read, in the background, for another caller,
in a thread. By then, the caller may have changed its arguments (`filters["page"] += 1`). So a call that leads to a
computation copies them before it gives up control, and checks that the copies make the same key. A hit copies nothing.

The function may change its arguments: it appends to a list, or loads a deferred column of a row. So each computation
gets copies of the call's copies. Otherwise the key would not fit any more when it is made again. And a second
computation of the same call would begin with what the first one has loaded.

Some arguments cannot be copied: `self`, an object with a `__cache_key__`, a request given to `key=`. For them, the
guard makes the key again when the computation has ended. If the key has changed, the guard cannot know which key the
value belongs to. It stores nothing, and only the caller that made this call gets the value. All others ask again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from stampede_guard.engine.tags.versions import TaggedRun
from stampede_guard.errors import UnsupportedValue
from stampede_guard.values.arguments.captured import Copying
from stampede_guard.values.codec import encoded

if TYPE_CHECKING:
    from stampede_guard.engine.plan import Plan, Run, Variables
    from stampede_guard.values.keys import KeyBuilder

__all__ = ["ArgumentsChanged", "Call", "captured", "following", "served_again", "unchanged"]

MOST_ATTEMPTS = 3
"""How often a call whose arguments changed is made again. After that, it computes without the store."""


class ArgumentsChanged(Exception):
    """A call's arguments no longer make its key. Callers never see this error: the call is made again."""


class Call:
    """With given arguments, `start` makes the computation, and `keys` make the key in the current context."""

    __slots__ = (
        "_args", "_copied", "_key", "_keys", "_kwargs", "_live", "_plan", "_start", "_variables", "answered", "value",
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
        """Whether `value` was computed for this call, but for no key."""
        self.value: Any = None
        self._plan = plan
        self._keys = keys
        self._start = start
        self._args = args
        self._kwargs = kwargs
        self._key = key
        self._copied = False
        self._live = False
        self._variables: Variables | None = None

    def __call__(self) -> Awaitable[Any]:
        args, kwargs = self._args, self._kwargs
        self._keys.fitted.note(args, kwargs)
        if self._copied:
            args, kwargs = self._keys.copies(args, kwargs)
        started = self._start(args, kwargs)
        return self._and_look_again(started) if self._live else started()

    async def _and_look_again(self, run: Run) -> Any:
        value = await run()
        if not self.unchanged():
            self.value, self.answered = value, True
            raise ArgumentsChanged
        return value

    def unchanged(self) -> bool:
        """Whether the arguments still make the key of the call."""
        try:
            return self._keys.build(self._args, self._kwargs) == self._key
        except Exception:  # from a class's own method, which did not fail before
            return False

    def take(self) -> Variables:
        """Copy what may change, and return the context variables that the computation sees.

        Call this in the caller's context, before it gives up control. Raises `ArgumentsChanged` if the key has changed.
        """
        if self._variables is not None:
            return self._variables
        copying = Copying(objects=not self._keys.replaced)
        with contextlib.suppress(RuntimeError):  # another thread changes an argument at this moment
            args, kwargs = self._keys.copied(copying, self._args, self._kwargs)
            variables = tuple([(variable, copying.of(value)) for variable, value in self._plan.capture()])
            with contextlib.suppress(Exception):
                # Use the computation's context, so that the check covers the variables that it sees.
                if self._plan.clean_context(variables).run(self._keys.build, args, kwargs) == self._key:
                    self._args, self._kwargs, self._live = args, kwargs, copying.live
                    self._variables, self._copied = variables, True
                    return variables
        if not self.unchanged():
            raise ArgumentsChanged
        # The copies make another key, because a class has its own way to copy. So compute with the originals.
        self._live = True
        self._variables = self._plan.capture()
        return self._variables


def _call_of(run: Run) -> Any:
    return run.run if type(run) is TaggedRun else run


def captured(plan: Plan, run: Run) -> Variables:
    """Copy the arguments of `run` now, and return its context variables. Raises `ArgumentsChanged`."""
    take = getattr(run.run if type(run) is TaggedRun else run, "take", None)
    variables: Variables = take() if take is not None else plan.capture() if plan.variables else ()
    return variables


def unchanged(run: Run) -> bool:
    """Whether the key still fits, for a computation that read its caller's own arguments."""
    look = getattr(_call_of(run), "unchanged", None)
    return look is None or bool(look())


def following(inner: Any, run: Run) -> Any:
    """Prepare `inner`, which awaits `run`: copying its arguments copies those of `run`."""
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
    """Serve a caller after its arguments have changed, or those of the caller that it waited for.

    The function `ask` makes the call again, with the arguments as they are then. The last resort is `directly`, which
    computes without the store.
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
    """The value as all other callers get it: with the declared type and its filter."""
    try:
        return plan.decode(encoded(plan.codec, value))
    except UnsupportedValue:
        return value
