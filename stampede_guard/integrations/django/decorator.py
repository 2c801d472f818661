"""`@locked_cache` for Django: helpers, sync views and async views.

A plain function computes in its caller's thread: it uses the caller's database connection and sees the caller's
transaction. A coroutine function computes on its caller's event loop, and its queries in a thread of its own, whose
connections are closed afterwards. Both run in the flight's clean context, so in the default language and time zone.

A transaction that has changed a mapped model (see `invalidation`) is served its own data: its calls compute uncached,
and share nothing until the commit.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Never, Unpack, cast

from asgiref.sync import iscoroutinefunction
from django.core.cache import close_caches

from stampede_guard.api.keywords import OWN_OF_VALUES, CacheOptions
from stampede_guard.api.types import NO_RESOURCES, CacheDecorator, Opened
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.errors import Misuse
from stampede_guard.integrations.django.bridge import AsyncCaller, Caller
from stampede_guard.integrations.django.guards import guard_of
from stampede_guard.integrations.django.invalidation import after_commit, has_pending_invalidations
from stampede_guard.integrations.django.views import (
    ASKED,
    AsyncViewCall,
    ViewCall,
    asking,
    bound_method,
    is_method_view,
    is_stand_in,
    is_view,
    view_key,
    view_name,
)
from stampede_guard.options import takes_options
from stampede_guard.policy import check_fields
from stampede_guard.values.forks import renew_in_children

__all__ = ["locked_cache"]


def _check(fields: Mapping[str, object], others: Iterable[str]) -> None:
    if "cache" in fields:
        alias = fields["cache"]
        raise Misuse(
            f"locked_cache has no cache: write using={alias!r}, which names a cache of settings.CACHES"
        )
    check_fields(fields, others)


@takes_options("locked_cache", own=OWN_OF_VALUES, refuse=_check)
def locked_cache(
    *misplaced: Never,
    using: str = "default",
    resources: Opened = NO_RESOURCES,
    **options: Unpack[CacheOptions],
) -> CacheDecorator[Opened]:
    """The decorator of the guard of `CACHES[using]`, with the options of `stampede_guard.locked_cache`.

    A function whose first parameter is `request` is a view, and so is such a method of a class, also with
    `method_decorator`. By default, the key of a view has the method, the complete URL, the language, the time zone and
    the arguments. Requests with cookies or another credential are not cached. With `key=`, a
    template or function of the view's parameters, they are: it says what the response depends on. Only responses that
    one visitor may share with another are stored: see `stampede_guard.integrations.django.views`.
    Raises `ImproperlyConfigured` if there is no such cache, and what the guard's decorator raises.
    """
    if misplaced:
        raise Misuse("locked_cache takes its options by name: write @locked_cache(ttl=300), with parentheses")
    given_options: dict[str, Any] = {**options, "resources": resources}
    methods = _Methods(using, given_options)

    def decorate(given: Any) -> Any:
        if isinstance(given, classmethod | staticmethod):
            return type(given)(decorate(given.__func__))
        if is_stand_in(given):
            return given
        if (bound := bound_method(given)) is not None:
            # Django's `method_decorator` calls this for each request.
            return functools.partial(methods.responder(bound.__func__, type(bound.__self__)), given)
        if is_method_view(given):
            return methods.view(given)
        face = _cached_view if is_view(given) else _cached_helper
        return face(given, guard_of(using), dict(given_options))

    return cast("CacheDecorator[Opened]", decorate)


def _cached_helper(function: Any, guard: Any, options: dict[str, Any]) -> Any:
    unkeyed = options.pop("unkeyed", ())
    unkeyed = (unkeyed,) if isinstance(unkeyed, str) else tuple(unkeyed)
    relay = _relay(function, inspect.signature(function))
    functools.update_wrapper(relay, function)
    relay.__signature__ = _with_caller(inspect.signature(function))
    key = options.pop("key", None)
    if key is not None:
        options["key"] = _of_caller(key)
    face = guard.locked_cache(unkeyed=(*unkeyed, "stampede_guard_caller"), **options)(relay)
    return _made(function, face, key if callable(key) else _no_key)


def _no_key(*_: Any, **__: Any) -> None:
    return None


def _made(function: Any, face: Any, key: Callable[..., Any]) -> Any:
    """The function that takes the place of the user's, with the methods of a cached function."""
    wrapper: Any
    if iscoroutinefunction(function):

        @functools.wraps(function)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            return await AsyncCaller(function, key(*args, **kwargs)).call(face, args, kwargs)

        async def arefresh(*args: Any, **kwargs: Any) -> Any:
            return await AsyncCaller(function, key(*args, **kwargs)).call(face.refresh, args, kwargs)

        async def ainvalidate(*args: Any, **kwargs: Any) -> Any:
            return await AsyncCaller(function, key(*args, **kwargs)).call(face.invalidate, args, kwargs)

        wrapper, wrapper_methods = acall, (arefresh, ainvalidate)
    else:
        plain = _closing(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if has_pending_invalidations():
                return function(*args, **kwargs)
            return Caller(plain, key(*args, **kwargs)).call(face, args, kwargs)

        def refresh(*args: Any, **kwargs: Any) -> Any:
            if has_pending_invalidations():
                # Others must not get what may be rolled back.
                after_commit(lambda: invalidate(*args, **kwargs))
                return function(*args, **kwargs)
            return Caller(plain, key(*args, **kwargs)).call(face.refresh, args, kwargs)

        def invalidate(*args: Any, **kwargs: Any) -> Any:
            return Caller(plain, key(*args, **kwargs)).call(face.invalidate, args, kwargs)

        wrapper, wrapper_methods = call, (refresh, invalidate)
    wrapper.refresh, wrapper.invalidate = wrapper_methods
    wrapper.key, wrapper.explain, wrapper.set_mode = face.key, face.explain, face.set_mode
    return wrapper


def _cached_view(view: Any, guard: Any, options: dict[str, Any]) -> Any:
    respond, face, key = _responder(view, inspect.signature(view), view_name(view), guard, options)
    wrapper: Any
    if iscoroutinefunction(view):

        @functools.wraps(view)
        async def aserve(request: Any, *args: Any, **kwargs: Any) -> Any:
            return await respond(view, request, *args, **kwargs)

        wrapper = aserve
    else:

        @functools.wraps(view)
        def serve(request: Any, *args: Any, **kwargs: Any) -> Any:
            return respond(view, request, *args, **kwargs)

        wrapper = serve
    wrapper.key, wrapper.explain, wrapper.set_mode = (
        _asked(face.key, key),
        _asked(face.explain, key),
        face.set_mode,
    )
    return wrapper


def _asked(method: Any, key: Callable[..., Any]) -> Any:
    """The face's method for a call of the view, which has the same key as the call itself."""

    @functools.wraps(method)
    def ask(request: Any, *args: Any, **kwargs: Any) -> Any:
        caller = Caller(method, key(request, *args, **kwargs))
        with asking(request):
            return method(request, *args, **kwargs, stampede_guard_caller=caller)

    return ask


class _Methods:
    """Methods of views. Each class that has or inherits one has responses of its own."""

    def __init__(self, using: str, options: dict[str, Any]) -> None:
        self._using, self._options = using, options
        self._lock = PassableLock()
        renew_in_children(self, "_lock", PassableLock)
        self._made: dict[tuple[type, Any], Callable[..., Any]] = {}

    def view(self, method: Any) -> Any:
        """For `def get(self, request)`."""
        if iscoroutinefunction(method):

            @functools.wraps(method)
            async def aserve(self_: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
                respond = self.responder(method, type(self_))
                return await respond(functools.partial(method, self_), request, *args, **kwargs)

            return aserve

        @functools.wraps(method)
        def serve(self_: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            respond = self.responder(method, type(self_))
            return respond(functools.partial(method, self_), request, *args, **kwargs)

        return serve

    def responder(self, method: Any, owner: type) -> Callable[..., Any]:
        """For the method of one class. Raises `Misuse`."""
        with self._lock:
            found = self._made.get((owner, method))
            if found is None:
                if getattr(owner, "view_is_async", False) and not iscoroutinefunction(method):
                    raise Misuse(
                        f"{owner.__qualname__}.{method.__name__}() returns coroutines: write "
                        f"locked_cache(ttl=60)({owner.__qualname__}.as_view())"
                    )
                found = self._made[owner, method] = self._make(method, owner)
        return found

    def _make(self, method: Any, owner: type) -> Callable[..., Any]:
        signature = inspect.signature(method)
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        name = f"{owner.__module__}.{owner.__qualname__}.{method.__name__}"
        if chosen := self._options.get("name"):
            name = f"{chosen}.{owner.__qualname__}"
        guard = guard_of(self._using)
        return _responder(method, signature, name, guard, {**self._options, "name": name})[0]


def _responder(
    view: Any, signature: inspect.Signature, name: str, guard: Any, options: dict[str, Any]
) -> tuple[Callable[..., Any], Any, Callable[..., Any]]:
    """`respond(view, request, ...)`, the guard's face, and the parts of a key. The view may be bound to an object."""
    if "should_cache" in options or options.get("resources"):
        raise Misuse(
            "should_cache= and resources= are not for views: a response with `Cache-Control: private` is not stored"
        )
    chosen = options.pop("key", None)
    key = _no_key if isinstance(chosen, str) else chosen or view_key
    relay = _relay(view, signature)
    relay.__name__, relay.__qualname__, relay.__module__ = view.__name__, view.__qualname__, view.__module__
    relay.__signature__ = _with_caller(signature)
    relay.__annotations__ = {"return": bytes}
    options |= {"name": options.get("name") or name, "key": _of_caller(chosen or view_key)}
    context = options.get("context", ())
    if chosen is not None and isinstance(context, Iterable) and not isinstance(context, str):
        options["context"] = (*context, ASKED)
    face = guard.locked_cache(should_cache=ViewCall.may_be_stored, **options)(relay)

    async def arespond(view: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        visit = AsyncViewCall(view, request, chosen_key=chosen is not None)
        if not visit.may_share:
            return await view(request, *args, **kwargs)
        caller = AsyncCaller(visit, key(request, *args, **kwargs))
        with asking(request):
            response = visit.response_of(await caller.call(face, (request, *args), kwargs))
        return await view(request, *args, **kwargs) if response is None else response

    def respond(view: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        visit = ViewCall(view, request, chosen_key=chosen is not None)
        if not visit.may_share or has_pending_invalidations():
            return view(request, *args, **kwargs)
        caller = Caller(_closing(visit), key(request, *args, **kwargs))
        with asking(request):
            response = visit.response_of(caller.call(face, (request, *args), kwargs))
        return view(request, *args, **kwargs) if response is None else response

    return (arespond if iscoroutinefunction(view) else respond), face, key


def _relay(function: Any, signature: inspect.Signature) -> Any:
    async def relay(*args: Any, stampede_guard_caller: Any = None, **kwargs: Any) -> Any:
        return await stampede_guard_caller.compute(args, kwargs)

    return relay


def _closing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A context of its own has its own caches, which Django's end of the request does not close."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            close_caches()

    return compute


def _with_caller(signature: inspect.Signature) -> inspect.Signature:
    parameters = list(signature.parameters.values())
    ours = inspect.Parameter("stampede_guard_caller", inspect.Parameter.KEYWORD_ONLY, default=None)
    last = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    parameters.insert(len(parameters) - last, ours)
    return signature.replace(parameters=parameters)


def _of_caller(key: Any) -> Any:
    """A template needs no change: it names parameters, and the caller is none of them."""
    if not callable(key):
        return key

    @functools.wraps(key)
    def parts(*args: Any, stampede_guard_caller: Any = None, **kwargs: Any) -> Any:
        return key(*args, **kwargs) if stampede_guard_caller is None else stampede_guard_caller.key

    with contextlib.suppress(TypeError, ValueError):  # what does not tell its parameters, such as `str`
        parts.__signature__ = _with_caller(inspect.signature(key))  # type: ignore[attr-defined]
    return parts
