"""An application as people write it, whose cached endpoints raise errors of their own.

`python -m tests.traps.domain_app URL NAMESPACE KIND...` is one more process of it. It prints what the endpoint answers
for each kind of error, and which computations ran.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Callable
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import httpx
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

from stampede_guard import StampedeGuard

computing = False
"""Classes may run code of their own only while an endpoint computes."""


def only_while_computing() -> None:
    if not computing:
        raise RuntimeError("code of the class was run")


class ProductNotFound(Exception):
    def __init__(self, product: int, *, tried: list[str]) -> None:
        only_while_computing()
        super().__init__(f"no product {product}")
        self.product = product
        self.tried = tried


class NoOwnInit(Exception):
    pass


class DomainError(Exception):
    status_code = 418


class OutOfStock(DomainError):
    status_code = 409

    def __init__(self, article: uuid.UUID, price: Decimal) -> None:
        only_while_computing()
        super().__init__(article, price)
        self.left = (0, 1)
        self.by = {"shop": {"a": 1.5}}


class Slotted(DomainError):
    __slots__ = ("rows",)

    def __init__(self, rows: list[int]) -> None:
        only_while_computing()
        self.rows = rows

    def __setattr__(self, name: str, value: Any) -> None:
        only_while_computing()
        super().__setattr__(name, value)


class Teapot(HTTPException):
    def __init__(self, cup: str) -> None:
        only_while_computing()
        super().__init__(HTTPStatus.IM_A_TEAPOT, {"cup": cup}, {"X-Cup": cup})
        self.cup = cup


class Missing(KeyError):
    pass


class Unreadable(OSError):
    pass


class Connection:
    """What no store can hold."""


class Unportable(DomainError):
    status_code = 410

    def __init__(self) -> None:
        super().__init__("gone")
        self.connection = Connection()


class Unhandled(Exception):
    """It has a status, no handler, and cannot travel."""

    status_code = 404

    def __init__(self) -> None:
        super().__init__("nowhere")
        self.connection = Connection()


def local_class() -> type[Exception]:
    class Local(Exception):
        pass

    return Local


def errors(local: type[Exception]) -> dict[str, Callable[[], Exception]]:
    return {
        "product": lambda: ProductNotFound(7, tried=["a", "b"]),
        "plain": lambda: NoOwnInit("x", 1, None),
        "stock": lambda: OutOfStock(uuid.UUID(int=7), Decimal("1.50")),
        "slots": lambda: Slotted([1]),
        "teapot": lambda: Teapot("blue"),
        "http": lambda: HTTPException(404, "no such thing"),
        "key": lambda: Missing("k"),
        "builtin": lambda: LookupError("nothing"),
        "file": lambda: Unreadable(2, "missing", "a.txt"),
        "local": lambda: local("here"),
        "group": lambda: ExceptionGroup("two", [NoOwnInit("a"), ExceptionGroup("one", [Missing("b")])]),
    }


OTHERS: dict[str, Callable[[], Exception]] = {"unportable": Unportable, "unhandled": Unhandled}


def told(error: BaseException) -> dict[str, Any]:
    """All that a handler can see of an error."""
    held: dict[str, Any] = {name: repr(value) for name, value in sorted(vars(error).items())}
    for name in ("rows", "errno", "strerror", "filename"):
        if hasattr(error, name):
            held[name] = repr(getattr(error, name))
    members = [told(member) for member in getattr(error, "exceptions", ())]
    return {"type": type(error).__qualname__, "args": repr(error.args), "held": held, "members": members}


def application(url: str, namespace: str) -> tuple[FastAPI, StampedeGuard, list[str]]:
    guard = StampedeGuard.from_url(url, namespace=namespace)
    app, runs, local = FastAPI(), [], local_class()
    raised = errors(local) | OTHERS

    async def answer(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse(told(error), status_code=getattr(error, "status_code", 422))

    @app.get("/{kind}")
    @guard.locked_cache(ttl=60, error_ttl=300, name="shop.domain")
    async def endpoint(kind: str) -> int:
        global computing
        runs.append(kind)
        computing = True
        try:
            raise raised[kind]()
        finally:
            computing = False

    guard.install(app)
    # Handlers may be added after `install`, too.
    for handled in (
        ProductNotFound,
        NoOwnInit,
        DomainError,
        Teapot,
        LookupError,
        OSError,
        local,
        ExceptionGroup,
    ):
        app.add_exception_handler(handled, answer)
    return app, guard, runs


async def answers(app: FastAPI, kinds: list[str]) -> dict[str, Any]:
    found = {}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        for kind in kinds:
            reply = await client.get(f"/{kind}")
            found[kind] = [reply.status_code, reply.text]
    return found


async def main(url: str, namespace: str, *kinds: str) -> None:
    app, guard, runs = application(url, namespace)
    async with guard:
        print(json.dumps([await answers(app, list(kinds)), runs]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
