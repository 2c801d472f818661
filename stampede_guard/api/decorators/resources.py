"""Opens what a computation needs, from the factories in `resources=`, and closes it when the computation has ended.

A factory may be all that FastAPI's `Depends` takes: a function, plain or async, with or without `yield`, a class, a
callable object, each with dependencies of its own. A context manager that it returns is entered, and an awaitable is
awaited. A plain generator function runs in a thread, because it may block.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from stampede_guard.api.decorators.dependencies import Overridden, steps_of
from stampede_guard.errors import Misuse

__all__ = ["entered", "inserted", "with_resources"]


async def with_resources(
    resources: Mapping[str, Any],
    overridden: Overridden,
    compute: Callable[[dict[str, Any]], Awaitable[Any]],
) -> Any:
    """The result of `compute(opened)`. What was opened is closed then, also after an error and a cancellation.

    A factory sees the error, and cannot suppress it: without a result there is nothing to return.
    """
    failure: BaseException | None = None
    around: contextlib.AsyncExitStack[bool] = contextlib.AsyncExitStack()
    try:
        async with around as stack:
            steps, places = steps_of(resources, overridden)
            values: list[Any] = []
            for step in steps:
                made = step.factory(**{name: values[number] for name, number in step.needs.items()})
                values.append(await entered(stack, made, is_resource=step.resource is not None))
            try:
                return await compute({name: values[number] for name, number in places.items()})
            except BaseException as error:
                failure = error
                raise
        suppressed = Misuse("a factory in resources= suppressed the error of another one")
        raise suppressed if failure is None else failure
    finally:
        # An error's traceback holds this frame. Without this, the frame would hold the error.
        del failure


async def entered(stack: contextlib.AsyncExitStack, made: Any, *, is_resource: bool) -> Any:
    """The value of what a factory returned. The stack closes it.

    Only a resource itself is entered if it is a context manager. FastAPI passes it as it is, to other dependencies too.
    """
    if inspect.isasyncgen(made):
        return await stack.enter_async_context(contextlib.asynccontextmanager(lambda: made)())
    if inspect.isgenerator(made):
        return await stack.enter_async_context(_in_threads(contextlib.contextmanager(lambda: made)()))
    if is_resource and hasattr(made, "__aenter__"):
        return await stack.enter_async_context(made)
    if is_resource and hasattr(made, "__enter__") and hasattr(made, "__exit__"):
        return stack.enter_context(made)
    return await made if inspect.isawaitable(made) else made


@contextlib.asynccontextmanager
async def _in_threads(manager: contextlib.AbstractContextManager[Any]) -> AsyncIterator[Any]:
    """A plain context manager, whose code runs in threads.

    Each has a thread of its own. In a pool, those that wait for a connection could fill all threads, and those that
    would give one back would find none.
    """
    entering = _in_a_thread(manager.__enter__)
    try:
        value = await asyncio.shield(entering)
    except asyncio.CancelledError:
        await _ended(entering)
        if entering.exception() is None:
            cancelled = asyncio.CancelledError()
            await _ended(_in_a_thread(lambda: manager.__exit__(type(cancelled), cancelled, None)))
        raise
    try:
        yield value
    except BaseException as error:
        leaving = _in_a_thread(partial(manager.__exit__, type(error), error, error.__traceback__))
        await _ended(leaving)
        if not leaving.result():
            raise
    else:
        leaving = _in_a_thread(lambda: manager.__exit__(None, None, None))
        await _ended(leaving)
        leaving.result()


def _in_a_thread(function: Callable[[], Any]) -> asyncio.Future[Any]:
    """The outcome of a function that runs in a new thread, with a copy of this context."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    outcome: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def work() -> None:
        result: Any = None
        failed: BaseException | None = None
        try:
            result = context.run(function)
        except StopIteration as error:
            failed = RuntimeError("a factory in resources= raised StopIteration")
            failed.__cause__ = error
        except BaseException as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=work, name="stampede_guard resource", daemon=True).start()
    return outcome


async def _ended(outcome: asyncio.Future[Any]) -> None:
    """Wait for a thread, also if this task is cancelled meanwhile. The cancellation is raised afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not outcome.done():
        try:
            await asyncio.wait({outcome})
        except asyncio.CancelledError as error:
            cancelled = error
    outcome.exception()
    if cancelled is not None:
        raise cancelled


def inserted(
    parameters: Mapping[str, inspect.Parameter],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    opened: dict[str, Any],
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call that does not give the resources, with the resources in their places."""
    named, rest, found = kwargs | opened, list(args), list[Any]()
    positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    last = max(
        (n for n, p in enumerate(positional) if p.name in opened and p.kind is p.POSITIONAL_ONLY), default=-1
    )
    for number, parameter in enumerate(positional):
        if not rest and number > last:
            break
        if parameter.name in opened:
            found.append(named.pop(parameter.name))
        elif rest:
            found.append(rest.pop(0))
        else:
            found.append(parameter.default)
    return [*found, *rest], named
