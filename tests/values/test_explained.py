"""What the name of an entry says by itself, whatever was in the key."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard import Misuse, StampedeGuard
from stampede_guard.values.keys.explained import LONGEST_NAME, explain_name

guard = StampedeGuard.from_url("memory://", namespace="shop")


@guard.locked_cache(name="shop.quality")
async def quality(project: Any, region: Any = "eu") -> int:
    return 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (-3, "-3"),
        ("a b", "'a b'"),
        ("a,b=c(d)", "'a,b=c(d)'"),
        ("{x}", "'{x}'"),
        ((1, (2, 3)), "tuple(1,tuple(2,3))"),
        (None, "None"),
        ("ü:~", "'ü:~'"),
        ("", "''"),
    ],
)
def test_a_part_is_shown_as_it_was_given(value: Any, text: str) -> None:
    explained = explain_name(quality.key(value))
    assert (explained.namespace, explained.title, explained.kind) == ("shop", "shop.quality", "function")
    assert [(part.label, part.text) for part in explained.parts] == [("project", text), ("region", "'eu'")]
    assert explained.complete


def test_a_long_part_is_said_to_be_hashed() -> None:
    project, region = explain_name(quality.key("x" * 60)).parts
    assert project.hashed and project.text.startswith("~")
    assert not region.hashed


def test_a_name_that_was_cut_is_said_to_be_incomplete() -> None:
    @guard.locked_cache(name="shop.wide")
    async def wide(a: str, b: str, c: str, d: str) -> int:
        return 1

    explained = explain_name(wide.key(*["y" * 40] * 4))
    assert not explained.complete
    assert [part.label for part in explained.parts] == ["a", "b"]


def test_the_key_of_get_or_compute_is_shown_with_its_type() -> None:
    explained = explain_name("shop:=report:a%20b#0a1b2c3d4e5f")
    assert (explained.kind, explained.title, explained.digest) == (
        "key",
        "shop:get_or_compute",
        "0a1b2c3d4e5f",
    )
    assert explained.parts[0].text == "report:a b"


@pytest.mark.parametrize("namespace", ["shop", "shop:eu", "a:b:c"])
def test_a_namespace_with_colons_is_found_when_it_is_named(namespace: str) -> None:
    own = StampedeGuard.from_url("memory://", namespace=namespace)

    @own.locked_cache(name="shop.quality")
    async def function(project: int) -> int:
        return 1

    for explained in (
        explain_name(function.key(7), namespace=namespace),
        own.explain(function.key(7)),
        own.explain(f"{{{function.key(7)}}}:v"),
    ):
        assert (explained.namespace, explained.title) == (namespace, "shop.quality")
    assert explain_name(f"{namespace}:=k").namespace == namespace


@pytest.mark.parametrize("name", ["", "shop", "shop:quality", "shop:f:0a1b:x", "x" * (LONGEST_NAME + 1)])
def test_what_is_no_name_of_an_entry_is_refused(name: str) -> None:
    with pytest.raises(Misuse):
        explain_name(name)


@pytest.mark.parametrize(
    "name", ["shop:http2:https://x.org/a:b?c=d#e", "{shop:http2:https://x.org/a:b?c=d#e}:v"]
)
def test_an_entry_of_the_http_cache_is_its_url(name: str) -> None:
    explained = explain_name(name, namespace="shop")
    assert (explained.namespace, explained.kind, explained.title) == ("shop", "url", "http")
    assert explained.parts[0].text == "https://x.org/a:b?c=d#e"
