"""The same for a plain function: `resources` are opened and closed in the thread that computes.

What is asynchronous is opened on the portal's event loop. It stays in one task there until the computation has ended.
So a thread that cannot be cancelled never loses what it uses.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from stampede_guard.api.decorators.dependencies import Overridden, steps_of
from stampede_guard.api.decorators.resources import entered
from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import Misuse

__all__ = ["with_plain_resources"]


def with_plain_resources(
    resources: Mapping[str, Any], overridden: Overridden, compute: Callable[[dict[str, Any]], Any]
) -> Any:
    """The result of `compute(opened)`: see `resources.with_resources`."""
    failure: BaseException | None = None
    around: contextlib.ExitStack[bool] = contextlib.ExitStack()
    try:
        with around as stack:
            steps, places = steps_of(resources, overridden)
            values: list[Any] = []
            for step in steps:
                made = step.factory(**{name: values[number] for name, number in step.needs.items()})
                values.append(_entered(stack, made, is_resource=step.resource is not None))
            try:
                return compute({name: values[number] for name, number in places.items()})
            except BaseException as error:
                failure = error
                raise
        suppressed = Misuse("a factory in resources= suppressed the error of another one")
        raise suppressed if failure is None else failure
    finally:
        # An error's traceback holds this frame. Without this, the frame would hold the error.
        del failure


def _entered(stack: contextlib.ExitStack, made: Any, *, is_resource: bool) -> Any:
    if inspect.isgenerator(made):
        return stack.enter_context(contextlib.contextmanager(lambda: made)())
    if is_resource and hasattr(made, "__enter__") and hasattr(made, "__exit__"):
        return stack.enter_context(made)
    if inspect.isasyncgen(made) or inspect.isawaitable(made) or (is_resource and hasattr(made, "__aenter__")):
        return stack.enter_context(_Held(made, is_resource=is_resource))
    return made


class _Held(contextlib.AbstractContextManager[Any]):
    """What is asynchronous, held open by a task on the portal's event loop."""

    def __init__(self, made: Any, *, is_resource: bool) -> None:
        self._made = made
        self._is_resource = is_resource

    def __enter__(self) -> Any:
        return portal().call(self._open)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        portal().call(self._close, error)

    async def _open(self) -> Any:
        loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[Any] = loop.create_future()
        self._closing: asyncio.Future[BaseException | None] = loop.create_future()
        self._task = loop.create_task(self._hold(), name="stampede_guard resource")
        try:
            await asyncio.wait({self._opened, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if not self._opened.done():
            self._task.result()
        return self._opened.result()

    async def _hold(self) -> None:
        error: BaseException | None = None
        try:
            async with contextlib.AsyncExitStack() as stack:
                self._opened.set_result(await entered(stack, self._made, is_resource=self._is_resource))
                error = await self._closing
                if error is not None:
                    raise error
        except BaseException as raised:
            # The computation's own error is raised in its thread. An exit must not end this loop.
            if raised is not error:
                raise

    async def _close(self, error: BaseException | None) -> None:
        self._closing.set_result(error)
        await asyncio.wait({self._task})
        self._task.result()
