"""cache_control: the caching fields of an endpoint's response, as a FastAPI dependency."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

from stampede_guard.durations import Duration, advice, seconds
from stampede_guard.errors import Misuse
from stampede_guard.http.requests.settings import field_names
from stampede_guard.options import takes_options

__all__ = ["cache_control"]

_SECONDS = ("max_age", "s_maxage", "stale_while_revalidate", "stale_if_error")
_LONGEST = 2**31
_CONTRADICTIONS = (
    ("no_store", (*_SECONDS, "public", "immutable")),
    ("private", ("public", "s_maxage")),
    ("must_revalidate", ("stale_while_revalidate", "stale_if_error")),
)


class CacheDirectives(TypedDict, total=False):
    """Directives of Cache-Control, as `cache_control` takes them."""

    max_age: Duration
    s_maxage: Duration
    stale_while_revalidate: Duration
    stale_if_error: Duration
    public: bool
    private: bool
    no_store: bool
    no_cache: bool
    must_revalidate: bool
    immutable: bool


@takes_options("cache_control", own=CacheDirectives.__annotations__)
def cache_control(
    *, vary: tuple[str, ...] = (), **directives: Unpack[CacheDirectives]
) -> Callable[..., None]:
    """`@app.get("/prices", dependencies=[Depends(cache_control(max_age=60, stale_while_revalidate=600))])`.

    Sets Cache-Control, and Vary, on the endpoint's response. It does not set them on errors, which the framework
    creates itself, nor on a `Response` that the endpoint creates itself. Seconds: `max_age`, `s_maxage` (for shared
    caches, such as this one), `stale_while_revalidate`, `stale_if_error`. True or not given: `public`, `private`,
    `no_store`, `no_cache`, `must_revalidate`, `immutable`. Raises `Misuse` for contradictory directives.
    """
    from starlette.responses import Response

    header = _header(dict(directives))
    names = b", ".join(field_names(vary, what="vary")).decode()

    def set_headers(response: Any) -> None:
        response.headers["cache-control"] = header
        if names:
            response.headers.append("vary", names)

    # FastAPI reads the annotation. As a string it would be looked up in this module.
    set_headers.__annotations__ = {"response": Response, "return": None}
    return set_headers


def _header(directives: dict[str, Any]) -> str:
    parts = []
    for name, value in directives.items():
        word = name.replace("_", "-")
        if name in _SECONDS:
            time = seconds(value)
            if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time <= _LONGEST:
                raise Misuse(
                    f"cache_control({name}={value!r}): it must be a number of seconds{advice(value)}"
                )
            parts.append(f"{word}={int(time)}")
        else:
            if not isinstance(value, bool):
                raise Misuse(f"cache_control({name}={value!r}): it must be True or left out")
            if value:
                parts.append(word)
    given = {name for name, value in directives.items() if value is not False}
    for one, others in _CONTRADICTIONS:
        wrong = sorted(given & set(others)) if one in given else []
        if wrong:
            raise Misuse(
                f"cache_control({one}=True, {wrong[0]}=...) contradicts itself: leave one of them out"
            )
    if not parts:
        raise Misuse("cache_control() says nothing: give it a directive, such as max_age=60")
    return ", ".join(parts)
