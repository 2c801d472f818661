"""`@locked_cache` on a plain `def` function: the same call as for a coroutine function, made through the portal.

This module has no part of the protocol. The caller's thread waits, while the function computes in a thread of the
guard, in a clean context. A coroutine may call it, too, but it blocks its event loop, as any slow plain function does.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from stampede_guard.api.decorators.decorator import Face
from stampede_guard.api.decorators.plainresources import with_plain_resources
from stampede_guard.api.decorators.resources import inserted
from stampede_guard.api.results import CallInfo, Missing, uncached
from stampede_guard.api.types import Invalidation
from stampede_guard.engine.engine import NOTHING, Stored
from stampede_guard.engine.plan import Plan, Run
from stampede_guard.engine.threads.desk import DESK, Desk
from stampede_guard.engine.threads.portal import portal
from stampede_guard.engine.threads.surroundings import Surroundings, surroundings_of_caller
from stampede_guard.errors import KeyPartError, Misuse
from stampede_guard.policy import Mode, Policy

__all__ = ["PlainFace"]

P = ParamSpec("P")
R = TypeVar("R")


class PlainFace(Face[P, R]):
    def _make_plan(self, base: Policy) -> Plan:
        plan = super()._make_plan(base)
        plan.in_thread = True
        if not self._options.in_thread:
            # It needs its caller's thread, as other computations need their caller's request.
            plan.request_bound = True
        return plan

    def _at_portal(
        self, call: Callable[..., Any], args: Any, kwargs: Any, in_child: Callable[[Any], Any] | None = None
    ) -> Any:
        """Make a call that may compute, on the portal's loop. With `in_thread=False`, it computes in this thread."""
        made = functools.partial(call, *args, **kwargs)
        return portal().call(made) if self._options.in_thread else portal().call_here(made, in_child=in_child)

    def _starter(self) -> Callable[[Any, Any], Run]:
        surroundings = surroundings_of_caller()
        desk = None if self._options.in_thread else DESK.get()
        return functools.partial(self._start, surroundings=surroundings, desk=desk)

    def _start(
        self, args: Any, kwargs: Any, surroundings: Surroundings | None = None, desk: Desk | None = None
    ) -> Run:
        """The computation, made on the portal's loop with the guard's runtime there."""
        compute = functools.partial(self._compute, args, kwargs)
        if surroundings is not None:
            # A framework's session ends with its surroundings.
            inner = compute
            compute = functools.partial(
                surroundings, lambda: self._settled(inner()), self._function.__qualname__
            )
        if desk is not None:
            # An ORM row may load more of itself, and only this thread may do that.
            here = compute
            return functools.partial(desk.run, lambda: self._settled(here()))
        return self._guarded().engine.runs.in_thread(compute)

    def _compute(self, args: Any, kwargs: Any) -> Any:
        if self._options.resources:
            return with_plain_resources(
                self._options.resources,
                self._endpoint.overridden,
                lambda opened: self._result(*inserted(self._parameters, args, kwargs, opened)),
            )
        return self._result(args, kwargs)

    def _result(self, args: Any, kwargs: Any) -> Any:
        result = self._function(*args, **kwargs)
        if inspect.iscoroutine(result):
            result.close()
            raise Misuse(f"{self._function.__qualname__}() is a plain function that returned a coroutine: "
                         "write async def, or decorate the function that makes it")  # fmt: skip
        return self._settled(result) if self._options.resources else result

    def _mode_of_call(self, args: Any, kwargs: Any) -> Mode:
        engine = self._guarded().engine
        samples = engine.modes.samples(self._plan)
        return engine.modes.of(
            self._plan, engine.prefix + self._keys.build(args, kwargs) if samples else None
        )

    def _outdate_here(self, args: Any, kwargs: Any) -> None:
        if self._guarded().engine.store.is_empty:
            return
        # A call in mode "off" needs no key. What has none is not stored.
        with contextlib.suppress(KeyPartError):
            portal().call(self._outdate, self._entries(args, kwargs))

    def _in_shadow(self, args: Any, kwargs: Any) -> Any:
        """Compute in the caller's thread, and compare on the portal's loop."""
        engine = self._guarded().engine
        name, tags = engine.prefix + self._keys.build(args, kwargs), self._tags(engine, args, kwargs)
        return engine.runs.compare_plain(
            self._plan, name, tags, functools.partial(self._compute, args, kwargs)
        )

    def wrapper(self) -> Any:
        through: Any = super().wrapper()
        key_of = self._keys.key_of

        @functools.wraps(self._function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            result: R
            guard = self._guarded()
            if self._plan.l1 and (find := guard.engine.hits.near_finder(self._plan)) is not None:
                result = find(guard.prefix + key_of(*args, **kwargs), share=self._plan.share)
                if result is not NOTHING:
                    return result
            mode = self._mode_of_call(args, kwargs)
            if mode == "off":
                result = self._compute(args, kwargs)
            elif mode == "shadow":
                result = self._in_shadow(args, kwargs)
            else:
                result = self._at_portal(through, args, kwargs)
            return result

        def invalidate(*args: P.args, **kwargs: P.kwargs) -> Invalidation:
            result: Invalidation = portal().invalidate(through.invalidate, *args, **kwargs)
            return result

        def refresh(*args: P.args, **kwargs: P.kwargs) -> R:
            if self._mode_of_call(args, kwargs) in ("off", "shadow"):
                result: R = call(*args, **kwargs)
                self._outdate_here(args, kwargs)
                return result
            result = self._at_portal(through.refresh, args, kwargs)
            return result

        def with_info(*args: P.args, **kwargs: P.kwargs) -> CallInfo[R]:
            if self._mode_of_call(args, kwargs) in ("off", "shadow"):
                return uncached(call(*args, **kwargs))
            result: CallInfo[R] = self._at_portal(through.with_info, args, kwargs, uncached)
            return result

        def peek(*args: P.args, **kwargs: P.kwargs) -> R | Missing:
            result: R | Missing = portal().call(through.peek, *args, **kwargs)
            return result

        def set(value: Any, /, *args: P.args, **kwargs: P.kwargs) -> Stored:
            result: Stored = portal().call(through.set, value, *args, **kwargs)
            return result

        face: Any = call
        face.invalidate, face.refresh = invalidate, refresh
        face.with_info, face.peek, face.set = with_info, peek, set
        face.key, face.explain, face.set_mode = through.key, through.explain, through.set_mode
        if self._options.resources:
            face.__signature__ = self._visible_signature()
        return call
