"""A cache that moves below its route starts to work. So it may keep only what is the same for all callers."""

from __future__ import annotations

import pytest

from tests.audit.fixes.rewriting import rewritten, told

HEAD = """from contextvars import ContextVar
from typing import Annotated

import flask
from fastapi import Depends, FastAPI, Request, Response
from flask import request
from stampede_guard import locked_cache

from shop import Session, cache, database, members_only, session, who

app = FastAPI()
user: ContextVar[str] = ContextVar("user")


"""
MOVED = '@app.get("/sales")\n@locked_cache(ttl=60)\n'


def of(
    parameters: str = "", body: str = "return {}", below: str = "", cached: str = "locked_cache(ttl=60)"
) -> str:
    under = f"@{below}\n" if below else ""
    return f'{HEAD}@{cached}\n@app.get("/sales")\n{under}def sales({parameters}) -> dict[str, str]:\n    {body}\n'


@pytest.mark.parametrize(
    "text",
    [
        of(body='return {"user": user.get()}'),
        of(body='return {"found": request.args["q"]}'),
        of(body='return {"found": flask.session["user"]}'),
        of(body='g = flask.g\n    return {"found": g.user}'),
        of(below="members_only"),
        of(below="app.get('/old')\n@members_only"),
        of("db: Annotated[Session, Depends(session)]"),
        of("db: Session = Depends(session)"),
        of("by: Annotated[str | object, Depends(who)]"),
        of("request: Request", 'return {"by": request.headers["x-user"]}'),
        of("response: Response"),
        of("filters: Filters"),
    ],
)
def test_what_belongs_to_one_caller_is_not_cached_for_all(text: str) -> None:
    assert [finding.no_fix != "" for finding in told(text, "SG109")] == [True]
    assert rewritten(text, "SG109") == text


@pytest.mark.parametrize(
    "text",
    [
        of(body='return {"user": user.get()}', cached="locked_cache(ttl=60, context=lambda: user.get())"),
        of("db: Annotated[Session, Depends(session)]", cached='locked_cache(ttl=60, unkeyed=("db",))'),
        of().replace(" -> dict[str, str]", ""),
    ],
)
def test_what_is_named_in_the_decorator_is_left_to_the_reader(text: str) -> None:
    assert [finding.fix for finding in told(text, "SG109")] == ["unsafe"]


def test_it_is_safe_where_everything_is_declared() -> None:
    text = of("day: int, shop: Annotated[str, Depends(who)]")
    assert [finding.fix for finding in told(text, "SG109")] == ["safe"]
    assert MOVED in rewritten(text, "SG109", unsafe=False)


def test_a_context_is_found_in_the_functions_that_it_calls() -> None:
    text = of(body="return {'user': whose()}") + "\n\ndef whose():\n    return user.get()\n"
    assert rewritten(text, "SG109") == text


@pytest.mark.parametrize("code", ["SG101", "SG102", "SG103"])
def test_another_cache_that_reads_the_request_is_not_mended_unseen(code: str) -> None:
    library = {
        "SG101": "from fastapi_cache.decorator import cache\n",
        "SG102": "from aiocache import cached as cache\n",
        "SG103": "from cashews import cache\n",
    }[code]
    told_ttl = "expire" if code == "SG101" else "ttl"
    text = (
        f"{library}from flask import request\n\n\n@cache({told_ttl}=60)\n"
        'async def sales(day: int) -> str:\n    return request.args["q"]\n'
    )
    assert [finding.fix for finding in told(text, code)] == ["unsafe"]
