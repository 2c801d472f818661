"""`setnx` answers False where `set(nx=True)` answers None: only who asks "is it true" may get the other answer."""

from __future__ import annotations

import pytest

from tests.audit.fixes.rewriting import rewritten

HEAD = "import redis\nfrom redis import asyncio as aioredis\n\nr = redis.Redis()\nasync_r = aioredis.Redis()\n\n\n"


def of(body: str, head: str = "def job()") -> str:
    return f"{HEAD}{head}:\n    {body}\n"


PLAIN = 'r.set("job:lock", "1", nx=True, ex=60)'
AWAITED = f"await async_{PLAIN}"


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("if r.setnx('x'): work()", "if {}: work()"),
        ("if not r.setnx('x'): return", "if not {}: return"),
        ("while not r.setnx('x'): wait()", "while not {}: wait()"),
        ("if ready() and not r.setnx('x'): return", "if ready() and not {}: return"),
        ("return 1 if r.setnx('x') else 2", "return 1 if {} else 2"),
        ("assert r.setnx('x')", "assert {}"),
        ("r.setnx('x')", "{}"),
        ("return bool(r.setnx('x'))", "return bool({})"),
        ("return not r.setnx('x')", "return not {}"),
    ],
)
def test_a_plain_test_needs_no_more(body: str, after: str) -> None:
    text = of(body.replace("'x'", '"job:lock", "1"'))
    assert after.format(PLAIN) in rewritten(text, "SG301")


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("if r.setnx('x') == 0: return", "if bool({}) == 0: return"),
        ("if r.setnx('x') is False: return", "if bool({}) is False: return"),
        ("return r.setnx('x')", "return bool({})"),
        ("return ready() and r.setnx('x')", "return ready() and bool({})"),
        ("return r.setnx('x') if ready() else None", "return bool({}) if ready() else None"),
        (
            "taken = r.setnx('x')\n    if taken is False: return",
            "taken = bool({})\n    if taken is False: return",
        ),
        ("if (taken := r.setnx('x')): return taken", "if (taken := bool({})): return taken"),
        ("note(r.setnx('x'))", "note(bool({}))"),
        ("match r.setnx('x'):\n        case False: return", "match bool({}):\n        case False: return"),
        ("return {{'taken': r.setnx('x')}}", "return {{'taken': bool({})}}"),
        ("return(r.setnx('x'))", "return(bool({}))"),
    ],
)
def test_any_other_use_gets_the_same_answers_as_before(body: str, after: str) -> None:
    text = of(body.replace("'x'", '"job:lock", "1"').replace("{{", "{").replace("}}", "}"))
    made = rewritten(text, "SG301")
    assert after.replace("{{", "{").replace("}}", "}").replace("{}", PLAIN) in made
    assert made.count("bool(") == 1


def test_the_answer_of_a_coroutine_is_awaited_first() -> None:
    text = of('return await async_r.setnx("job:lock", "1")', "async def job()")
    assert f"return bool({AWAITED})" in rewritten(text, "SG301")


@pytest.mark.parametrize(
    ("body", "head"),
    [
        ('return async_r.setnx("job:lock", "1")', "def job()"),
        ('return await run(async_r.setnx("job:lock", "1"))', "async def job()"),
        ('return client.setnx("job:lock", "1")', "def job(client)"),
    ],
)
def test_what_may_be_a_coroutine_is_left_alone(body: str, head: str) -> None:
    assert "setnx" in rewritten(of(body, head), "SG301")


def test_a_set_had_this_answer_before() -> None:
    text = of('return r.set("job:lock", "1", nx=True)')
    assert f"return {PLAIN}" in rewritten(text, "SG301")
