"""The console as an ASGI application: routes, and what every request passes on its way."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from stampede_guard import __version__
from stampede_guard.errors import Misuse, PolicyError, StoreError, StoreUnavailable
from stampede_guard.jobs.scheduler import Jobs
from stampede_guard.leases.client import Leases
from stampede_guard.ops.cli.secrets import without_secrets
from stampede_guard.ops.console.access import (
    CLOSED,
    COOKIE,
    HEADERS,
    Allow,
    new_session,
    session_of_request,
    token_of,
    user_of,
)
from stampede_guard.ops.console.acting import act, form_of
from stampede_guard.ops.console.fleet import Fleet
from stampede_guard.ops.console.formsecret import FormSecrets
from stampede_guard.ops.console.live import LastAnswers, LiveAnswers, Streams
from stampede_guard.ops.console.openapi import document
from stampede_guard.ops.console.pages import Page, rendered
from stampede_guard.ops.console.screen import Action, ConsoleScreen, checked
from stampede_guard.ops.console.screens import SCREENS
from stampede_guard.ops.fleet.lanes import STYLE

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from stampede_guard.api.guard import StampedeGuard

__all__ = ["ConsoleApp"]

log = logging.getLogger("stampede_guard.console")

LONGEST_QUERY = 16_000
"""Bytes: more than the longest parameters of a screen have together, in plain letters."""
ASSETS = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
Answer = Callable[[Request], Awaitable[Response]]


class FoundData(NamedTuple):
    """The data of a screen, or the trouble. `read_at`: when the data were read, if the store is `away` now."""

    status: int
    data: dict[str, Any] | None
    trouble: str = ""
    away: bool = False
    read_at: float = 0.0

    def rendered(self, screen: ConsoleScreen, page: Page, *, frame: str = "") -> str:
        """The page, or without a `frame` its parts. While the store is away, nothing can be done with old data."""
        content = "trouble.html" if self.data is None else f"{screen.name}.html"
        below = content
        if self.read_at:
            content, page = "away.html", dataclasses.replace(page, allowed=frozenset(), token="")
        told = {"content": content, "below_it": below, "trouble": self.trouble, "read_at": self.read_at}
        return rendered(frame or content, page, **told, **(self.data or {}))


class ConsoleApp:
    """Pages about a fleet: `guard.console(allow=...)` makes one to mount; see docs/operators.md.

    `allow(request)` returns True or the user's name, and may be a coroutine function. Without it, every answer is 403.
    `actions`: names of what may be done; nothing by default. `shows_names`: names of entries, which contain values of
    parameters, instead of hashes. `leases`: a client of leases, for their pages and those of jobs. `jobs`: the jobs of
    this process, which its console can run by hand. Raises `Misuse`.
    """

    def __init__(
        self,
        guard: StampedeGuard,
        *,
        allow: Allow | None = None,
        actions: Iterable[str] = (),
        shows_names: bool = False,
        leases: Leases | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        # First, because the parts below read them.
        _check_types(leases, jobs)
        fleet = Fleet(
            guard.engine.store.servers,
            guard.namespace,
            guard=guard,
            leases=leases,
            jobs=jobs,
            shows_names=shows_names,
        )
        self._begin(fleet, allow, actions)

    @classmethod
    def of(cls, fleet: Fleet, *, allow: Allow | None, actions: Iterable[str] = ()) -> ConsoleApp:
        """For a fleet without a guard in this process."""
        made = cls.__new__(cls)
        made._begin(fleet, allow, actions)
        return made

    def _begin(self, fleet: Fleet, allow: Allow | None, actions: Iterable[str]) -> None:
        if allow is not None and not callable(allow):
            raise Misuse(
                f"allow={allow!r}: write a function that takes the request and returns True or a name"
            )
        if isinstance(actions, str):
            raise Misuse(f"actions={actions!r}: write actions=({actions!r},)")
        self.fleet = fleet
        self._allow = allow
        self._actions: dict[str, Action] = {one.name: one for screen in SCREENS for one in screen.actions}
        self._allowed = frozenset(actions)
        if unknown := self._allowed - self._actions.keys():
            known = ", ".join(sorted(self._actions)) or "none yet"
            raise Misuse(f"actions={sorted(unknown)}: the console has these actions: {known}")
        self._streams = Streams()
        self._live_data: LiveAnswers[FoundData] = LiveAnswers()
        self._last: LastAnswers[dict[str, Any]] = LastAnswers()
        self._secrets = FormSecrets(fleet)
        self._app = Starlette(routes=list(self._routes()), exception_handlers={HTTPException: _http_error})

    def _routes(self) -> Iterable[Route]:
        for screen in SCREENS:
            yield Route(screen.path, partial(self._page, screen))
            yield Route(f"/api/{screen.name}", partial(self._json, screen))
            yield Route(f"/live/{screen.name}", partial(self._live, screen))
        yield Route("/api/openapi.json", self._document)
        yield Route("/static/{name}", self._asset)
        yield Route("/act/{name}", self._act, methods=["POST"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            await self.fleet.aclose()
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in HEADERS.items()),
                ]
            await send(message)

        if scope["path"] == scope.get("root_path", "") and not scope["path"].endswith("/"):
            scope = {**scope, "path": scope["path"] + "/"}
        request = Request(scope, receive)
        answer: Any = self._app
        if len(scope.get("query_string", b"")) > LONGEST_QUERY:
            answer = PlainTextResponse("the query is too long", 414)
        else:
            user = await user_of(request, self._allow)
            if user is None:
                answer = PlainTextResponse(CLOSED if self._allow is None else "Not allowed.", 403)
            else:
                scope["stampede_guard.user"] = user
        await answer(scope, receive, with_headers)

    # --- answers --------------------------------------------------------------------------------

    async def _page(self, screen: ConsoleScreen, request: Request) -> Response:
        session = session_of_request(request) or new_session()
        page = await self._page_of(request, screen, session)
        found = await self._known(screen, request)
        response = HTMLResponse(found.rendered(screen, page, frame="page.html"), found.status)
        response.set_cookie(
            COOKIE,
            session,
            path=page.base or "/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def _json(self, screen: ConsoleScreen, request: Request) -> Response:
        found = await self._data(screen, request)
        return AsciiJson({"error": found.trouble} if found.data is None else found.data, found.status)

    async def _live(self, screen: ConsoleScreen, request: Request) -> Response:
        if self._streams.is_full or not screen.streams:
            # The browser does not connect again by itself after this status.
            return Response(status_code=204)
        page = await self._page_of(request, screen, session_of_request(request) or new_session())

        # By all that is sent, which `LONGEST_QUERY` limits.
        shared = screen.name, page.here

        async def render() -> str:
            found = await self._live_data.get(shared, partial(self._known, screen, request))
            return found.rendered(screen, page)

        return StreamingResponse(
            self._streams.follow(render),
            headers={"X-Accel-Buffering": "no"},  # of nginx, which would keep events back
            media_type="text/event-stream",
        )

    async def _document(self, request: Request) -> Response:
        return JSONResponse(document(SCREENS, _base(request), __version__))

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            raise HTTPException(404)
        text = files(__package__).joinpath("static", name).read_text("utf-8")
        if name == "console.css":
            # The policy for content forbids the figure's style element.
            text += STYLE
        return Response(text, media_type=ASSETS[name])

    async def _act(self, request: Request) -> Response:
        action, user = self._actions.get(request.path_params["name"]), request.scope["stampede_guard.user"]
        if action is None or action.name not in self._allowed:
            return PlainTextResponse("This action is not allowed: actions=(...) names those that are.", 403)
        status, said = 200, ""
        form: dict[str, str] = {}
        try:
            form = await form_of(request)
            if not await self._secrets.fit(request, form.pop("token", ""), user):
                return PlainTextResponse(
                    "This form was not sent by a page of the console. Load it again.", 403
                )
            client = request.client.host if request.client else "unknown"
            said = await act(self.fleet, action, form, user=user, client=client)
        except Misuse as error:
            status, said = 400, str(error)
        except StoreError as error:
            status, said = 503, self._told(error)
        # Also after an error: some of it may be done.
        self._live_data.forget()
        page = await self._page_of(request, None, session_of_request(request) or "")
        back = form.get("back", "")
        known = any(back.partition("?")[0] == screen.path for screen in SCREENS)
        return HTMLResponse(
            rendered(
                "page.html",
                page,
                content="done.html",
                said=said,
                failed=status != 200,
                back=page.base + (back if known else "/"),
            ),
            status,
        )

    # --- what answers are made of ---------------------------------------------------------------

    async def _data(self, screen: ConsoleScreen, request: Request) -> FoundData:
        try:
            asked = checked(screen.parameters, dict(request.query_params))
        except Misuse as error:
            return FoundData(400, None, str(error))
        try:
            return FoundData(200, await screen.data(self.fleet, asked))
        except Misuse as error:
            # The request is as the description of the API says. What it is about is not there.
            return FoundData(404, None, str(error))
        except StoreError as error:
            return FoundData(503, None, self._told(error), isinstance(error, StoreUnavailable))

    async def _known(self, screen: ConsoleScreen, request: Request) -> FoundData:
        """While the store is away, during a failover for example: what this page showed last, and when."""
        page = screen.name, request.scope.get("query_string", b"")
        found = await self._data(screen, request)
        if found.data is not None:
            self._last.keep(page, found.data)
        elif found.away and (last := self._last.get(page)) is not None:
            return found._replace(status=200, data=last[1], read_at=last[0])
        return found

    def _told(self, error: StoreError) -> str:
        return f"{type(error).__name__}: {without_secrets(str(error), self.fleet.url)}"

    async def _page_of(self, request: Request, screen: ConsoleScreen | None, session: str) -> Page:
        user = request.scope["stampede_guard.user"]
        query = request.scope.get("query_string", b"").decode("latin-1")
        # Where nothing is allowed, no page has a form.
        token = token_of(session, user, await self._secrets.newest()) if self._allowed else ""
        return Page(
            base=_base(request),
            screen=screen,
            screens=[one for one in SCREENS if one.listed],
            namespace=self.fleet.namespace,
            user=user,
            allowed=self._allowed,
            token=token,
            version=__version__,
            here="/" if screen is None else screen.path + (f"?{query}" if query else ""),
        )


def _check_types(leases: object, jobs: object) -> None:
    if not isinstance(leases, Leases | None):
        raise PolicyError("leases", leases, "guard.console takes a client of leases, or None")
    if not isinstance(jobs, Jobs | None):
        raise PolicyError("jobs", jobs, "guard.console takes Jobs, or None")


def _base(request: Request) -> str:
    base: str = request.scope.get("root_path", "").rstrip("/")
    return base


class AsciiJson(JSONResponse):
    """With escapes, so that names of entries with half of a surrogate pair can be sent."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


async def _http_error(request: Request, error: Exception) -> Response:
    status, headers = (error.status_code, error.headers) if isinstance(error, HTTPException) else (500, None)
    return PlainTextResponse(
        {404: "Not found.", 405: "Not allowed here."}.get(status, "Error."), status, headers
    )
