"""`Stampede`: the extension of a Flask application."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Iterable
from typing import Any, Never, Unpack, cast

from flask import Flask, current_app, has_app_context, request_started

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.api.keywords import OWN_OF_VALUES, CacheOptions
from stampede_guard.api.types import NO_RESOURCES, CacheDecorator, Opened
from stampede_guard.engine.threads.portal import refuse_eventlet
from stampede_guard.errors import Misuse
from stampede_guard.integrations.flask.command import command
from stampede_guard.integrations.flask.errors import answer_errors
from stampede_guard.integrations.flask.helpers import AppState, cached_helper
from stampede_guard.integrations.flask.settings import GuardSettings
from stampede_guard.integrations.flask.views import ViewDecorator, cached_view
from stampede_guard.options import takes_options
from stampede_guard.policy import check_fields

__all__ = ["Stampede"]

log = logging.getLogger("stampede_guard")

EXTENSION = "stampede_guard"


class Stampede:
    """A guard for each application. `Stampede(app)`, or `stampede = Stampede()` and later `stampede.init_app(app)`.

    It reads `app.config`: `STAMPEDE_GUARD_URL`, else `$STAMPEDE_GUARD_URL`, else `$REDIS_URL`, else memory with a
    warning. `STAMPEDE_GUARD_NAMESPACE`, else the variable of this name, else the name of the application.
    `STAMPEDE_GUARD_POLICY` and `STAMPEDE_GUARD_LIMITS`: dictionaries of Policy and Limits fields. In Flask,
    `wait_timeout` is 20 s by default. `STAMPEDE_GUARD_MODE`: the mode of all functions, for example "off" in tests.

    With `guard=`, it uses this guard, and reads nothing. Also plain functions under `@guard.locked_cache` then find
    `current_app` in their computation. It answers 503 with Retry-After to `WaitTimeout` and to store errors, 504 to
    `ComputeTimeout`, and the original's status to `ComputeFailed`, unless the application has handlers of its own.
    """

    @takes_options("Stampede", own=("guard", "app"))
    def __init__(self, app: Flask | None = None, *, guard: StampedeGuard | None = None) -> None:
        self._guard = _checked(guard)
        self._originals: weakref.WeakSet[Any] = weakref.WeakSet()
        if app is not None:
            self.init_app(app)

    @takes_options("init_app", own=("guard", "app"))
    def init_app(self, app: Flask, *, guard: StampedeGuard | None = None) -> None:
        """Give the application its guard, the error handlers and the command `flask stampede`.

        Raises `Misuse` for a wrong key or value in `app.config`, and for an application that has a guard already,
        and under eventlet.
        """
        refuse_eventlet()
        given = _checked(guard) or self._guard
        if not isinstance(app, Flask):
            raise Misuse(f"Stampede takes a Flask application, not {type(app).__name__}")
        if EXTENSION in app.extensions:
            raise Misuse(
                f"the application {app.name!r} has a guard already: make one Stampede() in a module of its own, and "
                "import it where you decorate"
            )
        app.extensions[EXTENSION] = AppState(GuardSettings.of(app).guard() if given is None else given)
        answer_errors(app)
        app.cli.add_command(command)
        self._report_undecorated(app)

    @property
    def guard(self) -> StampedeGuard:
        """The guard of the current application: `stampede.guard.sync.invalidate_tag("project:7")`. Raises `Misuse`."""
        return self._state().guard

    @takes_options("stampede.locked_cache", own=OWN_OF_VALUES, refuse=check_fields)
    def locked_cache(
        self, *misplaced: Never, resources: Opened = NO_RESOURCES, **options: Unpack[CacheOptions]
    ) -> CacheDecorator[Opened]:
        """The decorator of the guard, with the options of `stampede_guard.locked_cache`.

        The function computes in a thread, with an application context of its own. There is no request in it: pass what
        the result depends on as an argument. Raises what the guard's decorator raises.
        """
        if misplaced:
            raise Misuse("locked_cache takes its options by name: write @stampede.locked_cache(ttl=300)")

        def decorate(given: Any) -> Any:
            made = cached_helper(given, {**options, "resources": resources}, self._state)
            return self._decorated(given, made)

        return cast("CacheDecorator[Opened]", decorate)

    @takes_options("stampede.cached_view", own=OWN_OF_VALUES, refuse=check_fields)
    def cached_view(
        self,
        *misplaced: Never,
        vary: Iterable[str] = (),
        ignore: Iterable[str] = (),
        query: Iterable[str] | None = None,
        **options: Unpack[CacheOptions],
    ) -> ViewDecorator:
        """Cache the whole response of a view, below `@app.get`. The key has the URL and the view's arguments.

        `vary` names header fields that the response depends on, such as "Accept-Language": they are in the key, too.
        `ignore` names fields that it does not depend on, such as "Cookie", and others such as
        "Remote-Addr". Without "Cookie", requests with a cookie or another credential are not cached. The computation
        sees a request that has only what is in the key. So no field of one visitor can get into the response of
        another. `query` names the parameters of the query that count; None means all. See
        `stampede_guard.integrations.flask.views` for the responses that are stored.
        The options are those of `locked_cache`, without `key`, `unkeyed`, `resources` and `should_cache`.
        """
        if misplaced:
            raise Misuse("cached_view takes its options by name: write @stampede.cached_view(ttl=60)")
        decorate = cached_view(self._state, vary=vary, ignore=ignore, query=query, options=dict(options))
        return lambda view: self._decorated(view, decorate(view))

    def _decorated(self, given: Any, made: Any) -> Any:
        with contextlib.suppress(TypeError):  # a static method, or an object without weak references
            self._originals.add(given)
        return made

    def _report_undecorated(self, app: Flask) -> None:
        """With the first request, warn of views whose function is cached, but not as this view."""

        def look(sender: Flask, **_: Any) -> None:
            request_started.disconnect(look, app)
            for endpoint, view in list(app.view_functions.items()):
                if view in self._originals:
                    log.warning(
                        "the view %r is not cached: a route takes the function below it. Write @app.get(...) above, "
                        "and @stampede.cached_view or @stampede.locked_cache below it",
                        endpoint,
                    )

        app.extensions[EXTENSION].watch = look
        request_started.connect(look, app)

    def _state(self) -> AppState:
        if not has_app_context():
            raise Misuse(
                "there is no application here, so there is no guard. In a script or a task, call it within "
                "`with app.app_context():`"
            )
        found = current_app.extensions.get(EXTENSION)
        if not isinstance(found, AppState):
            raise Misuse(
                f"the application {current_app.name!r} has no guard: call stampede.init_app(app) where you make it"
            )
        return found


def _checked(guard: StampedeGuard | None) -> StampedeGuard | None:
    if guard is not None and not isinstance(guard, StampedeGuard):
        raise Misuse(f"guard= is a StampedeGuard, not {type(guard).__name__}")
    return guard
