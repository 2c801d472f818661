"""`@locked_cache(ttl=300)`, the decorator that most users need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, Unpack, cast

from stampede_guard.api.decorators.callables import is_coroutine_function
from stampede_guard.api.decorators.decorator import Face
from stampede_guard.api.decorators.methods import in_its_place, taken_from
from stampede_guard.api.decorators.options import Options, check_guard, refuse_positions
from stampede_guard.api.decorators.plain import PlainFace
from stampede_guard.api.keywords import OWN_OF_VALUES, CacheOptions
from stampede_guard.api.types import NO_RESOURCES, CacheDecorator, Opened
from stampede_guard.errors import Misuse
from stampede_guard.options import takes_options
from stampede_guard.policy import check_fields

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["locked_cache"]


@takes_options("locked_cache", own=OWN_OF_VALUES, refuse=check_fields)
def locked_cache(
    *misplaced: Never,
    guard: StampedeGuard | None = None,
    resources: Opened = NO_RESOURCES,
    **options: Unpack[CacheOptions],
) -> CacheDecorator[Opened]:
    """Cache a function or method, so that one expired entry costs one computation, fleet-wide.

    An `async def` function stays one. A plain `def` function stays plain: it computes in one of at most `max_threads`
    threads of the guard, and its caller's thread waits. It needs no event loop. Keys include `self` and `cls`.

    All Policy fields are keywords (`ttl="5m", stale_ttl=3600`): seconds, texts or timedeltas. The `ttl` may be
    a function of the value. It returns a time, or 0 or None if the value must not be stored. A function `should_cache`
    of the value may return False. Callers then get the value, but it is not stored. Waiters elsewhere compute beside
    each other (at most `uncacheable_limit`), not one after another. A computation may return `UNCHANGED` to keep the
    value of `previous()`. If one of these functions raises or returns a wrong value, the computation fails. See
    docs/values.md.

    Parameters in `unkeyed` are not in the key. They may belong to the caller's request (a session), so the computation
    stays within that request. Factories in `resources` open parameters for the computation: each is what FastAPI's
    `Depends` takes, or returns a context manager or an awaitable: see docs/fastapi.md. These parameters leave the
    signature. The computation sees the ContextVars in `context`, and the key includes them. Change `version` when the
    meaning of the result changes; `"auto"` follows the function's code. A `key` is a template of the parameters that
    count, `"user:{user_id}"`, or a function of the same arguments that returns the parts of the key. A `name` replaces
    the module and qualified name. With `pickle`, values that nothing else can encode are pickled. Anyone who can write
    to the store can then run code here. For `tags` such as `"project:{project}"`, see docs/invalidation.md. Keys hash
    the parameters in `secret`, as they always hash those called `token` or `email`: see docs/keys.md.

    With `in_thread=False`, a plain function computes in its caller's own thread, with that thread's sessions and
    connections. The event loop of plain functions still renews the lease, and other callers of the key wait. There is
    no refresh in the background: a caller that finds a stale value computes. Warning: if a coroutine calls it, it
    computes in that event loop's thread and blocks the loop, as any plain function does. See docs/calls.md.

    Raises `PolicyError`, `KeyPartError`, `UnsupportedValue` or `Misuse` at decoration.
    """
    refuse_positions("locked_cache", misplaced)
    check_guard(guard)
    own, fields = Options.of(options, resources=resources)

    def decorate(given: Any) -> Any:
        function = taken_from(given)
        if is_coroutine_function(function):
            if not own.in_thread:
                raise Misuse(
                    f"{function.__qualname__}() is an async def, which computes in the event loop: in_thread=False is "
                    "for plain functions. Leave it out, or name what belongs to the request in unkeyed="
                )
            face: Face[Any, Any] = Face(function, guard, own, fields)
        else:
            face = PlainFace(function, guard, own, fields)
        return in_its_place(given, face.made())

    return cast("CacheDecorator[Opened]", decorate)
