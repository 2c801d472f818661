"""Old and new pods in a rolling deploy: `version="auto"` keeps what different code has computed apart."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.errors import KeyPartError
from stampede_guard.values.keys.codeversion import code_version
from tests.support.inside import store_of


def made(source: str, name: str = "f", *, file: str = "shop.py") -> Callable[..., Any]:
    """The function of this name, as a module with this source has it."""
    namespace: dict[str, Any] = {"functools": functools, "__name__": "shop"}
    exec(compile(textwrap.dedent(source), file, "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


BASE = """
async def f(project, limit=10):
    names = {"b", "a"}
    def inner(x):
        return x * 2
    return {"share": inner(project) / limit, "in": project in {"x", "y", "z"}, "of": names}
"""

SAME = [
    ("\n\n\n# a comment" + BASE, "moved, with a comment"),
    (BASE.replace("limit=10):", 'limit=10):\n    """What it is."""'), "documented"),
    (BASE.replace("(project, limit=10)", "(project: int, limit: int = 10)"), "annotated"),
    (BASE + "\nasync def g():\n    return 1\n", "beside another"),
]
DIFFERENT = [
    (BASE.replace("/ limit", "* limit"), "an operator"),
    (BASE.replace("limit=10", "limit=20"), "a default"),
    (BASE.replace('"share"', '"part"'), "a constant"),
    (BASE.replace("x * 2", "x * 3"), "a function within"),
    (BASE.replace("async def", "def"), "no longer async"),
    (BASE.replace('"z"', '"w"'), "a member of a set"),
    (BASE.replace("project, limit=10", "limit, project=10"), "the order of parameters"),
    (BASE.replace("inner(project)", "outer(project)"), "a name that it uses"),
    (BASE.replace("project in", "project not in"), "a comparison"),
]


@pytest.mark.parametrize(("source", "what"), SAME, ids=[what for _, what in SAME])
def test_what_changes_no_result_changes_no_version(source: str, what: str) -> None:
    assert code_version(made(source, file=f"{what}.py")) == code_version(made(BASE))


@pytest.mark.parametrize(("source", "what"), DIFFERENT, ids=[what for _, what in DIFFERENT])
def test_what_may_change_the_result_changes_the_version(source: str, what: str) -> None:
    assert code_version(made(source)) != code_version(made(BASE))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f = lambda p: 'a'", "f = lambda p: 'b'"),
        ("f = lambda p: 1", "f = lambda p: 1.0"),
        ("f = lambda p: 1", "f = lambda p: True"),
        ("f = lambda p: 0.0", "f = lambda p: -0.0"),
        ("f = lambda p: ['a' for _ in p]", "f = lambda p: ['b' for _ in p]"),
        ("f = lambda p: list('a' for _ in p)", "f = lambda p: list('b' for _ in p)"),
        ("def f(p):\n  'doc'\n  return 'a'", "def f(p):\n  'doc'\n  return 'b'"),
        ("def f(p):\n  class C:\n    x = 1\n  return C.x", "def f(p):\n  class C:\n    x = 2\n  return C.x"),
        ("def f(p, *, x=1):\n  return x", "def f(p, *, x=2):\n  return x"),
        (
            "def f(p):\n  try:\n    return 1\n  except A:\n    return 2",
            "def f(p):\n  try:\n    return 1\n  except B:\n    return 2",
        ),
        (
            "def d(g):\n  @functools.wraps(g)\n  def w(p):\n    return g(p)\n  return w\n@d\ndef f(p):\n  return 1",
            "def d(g):\n  @functools.wraps(g)\n  def w(p):\n    return g(p)\n  return w\n@d\ndef f(p):\n  return 2",
        ),
        (
            "def d(g):\n  def w(p):\n    return g(p)\n  return w\n@d\ndef f(p):\n  return 1",
            "def d(g):\n  def w(p):\n    return g(p)\n  return w\n@d\ndef f(p):\n  return 2",
        ),
        (
            "def g(p):\n  return 1\nf = functools.partial(g)",
            "def g(p):\n  return 2\nf = functools.partial(g)",
        ),
        (
            "class C:\n  def __call__(self, p):\n    return 1\nf = C()",
            "class C:\n  def __call__(self, p):\n    return 2\nf = C()",
        ),
    ],
)
def test_no_two_functions_that_differ_have_one_version(one: str, other: str) -> None:
    assert code_version(made(one)) == code_version(made(one))
    assert code_version(made(one)) != code_version(made(other))


def test_a_docstring_is_no_part_of_the_version() -> None:
    assert code_version(made("def f(p):\n  'one'\n  return 1")) == code_version(made("def f(p):\n  return 1"))


def test_what_a_process_closes_over_does_not_keep_processes_apart() -> None:
    def factory(secret_of_the_process: str) -> Callable[[], str]:
        return lambda: secret_of_the_process

    assert code_version(factory("a")) == code_version(factory("b"))


def test_the_version_is_that_of_every_process() -> None:
    """Sets of texts are in another order in each process."""
    shown = "from stampede_guard.values.keys.codeversion import code_version\nprint(code_version(f))"
    program = f"import functools\n{BASE}\n{shown}"
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert told == {code_version(made(BASE)) + "\n"}


@pytest.mark.parametrize("given", [len, dict, functools.partial(print)])
def test_what_has_no_code_is_refused_with_what_to_write(given: Any) -> None:
    with pytest.raises(KeyPartError, match='write version="1"'):
        code_version(given)


async def test_a_deploy_with_other_code_uses_other_entries() -> None:
    """The same name and type; another meaning."""
    old, new = (
        made(f"async def f(project: int) -> int:\n  return project * {factor}") for factor in (1, 100)
    )
    async with StampedeGuard.from_url("memory://", namespace="shop") as before:
        ours = before.locked_cache(ttl=60, name="quality", version="auto")(old)
        async with StampedeGuard(store_of(before), namespace="shop") as after:
            theirs = after.locked_cache(ttl=60, name="quality", version="auto")(new)
            assert [await ours(7), await theirs(7), await ours(7), await theirs(7)] == [7, 700, 7, 700]
            assert ours.key(7) != theirs.key(7)


async def test_plain_functions_take_it_too() -> None:
    versions = set()
    for factor in (1, 2):
        guard = StampedeGuard.from_url("memory://", namespace="shop")
        plain = guard.locked_cache(name="plain", version="auto")(
            made(f"def f(project: int) -> int:\n  return project * {factor}")
        )
        versions.add(plain.key(7).split(":")[2])
    assert len(versions) == 2
