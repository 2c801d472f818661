"""FastAPI and Starlette: the endpoint of a readiness probe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.errors import Misuse
from stampede_guard.options import takes_options

__all__ = ["health_endpoint"]


@takes_options("health_endpoint")
def health_endpoint(
    guard: StampedeGuard, *, serving: Iterable[str] = ("ok",)
) -> Callable[[Any], Awaitable[Any]]:
    """An endpoint that checks the store and answers `guard.check_health()` as JSON: 200 for `serving`, else 503.

    In FastAPI and Starlette: `app.add_route("/health/cache", health_endpoint(guard))`. The guard serves callers while
    the store is away. So give `serving=("ok", "away", "full")` for a probe that takes workers out of service. The
    answer contains host names: do not make it public. Raises `Misuse` for an unknown status.
    """
    from starlette.responses import JSONResponse

    fine = frozenset(serving)
    if not fine <= _STATUSES:
        raise Misuse(f"serving={sorted(fine - _STATUSES)} is not allowed: write some of {sorted(_STATUSES)}")

    async def endpoint(request: Any) -> JSONResponse:
        found = await guard.check_health()
        return JSONResponse(
            {"status": found.status, "since": found.since, "why": found.why, "parts": list(found.parts)},
            status_code=200 if found.status in fine else 503,
            headers={"Cache-Control": "no-store"},
        )

    return endpoint


_STATUSES = frozenset({"ok", "away", "refused", "full"})
