"""The options of each face are written once, and a wrong name is refused with the nearest right one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from stampede_guard import Misuse, Policy, StampedeGuard, cached_many, locked_cache
from stampede_guard.durations import Duration
from stampede_guard.policy import PolicyFields
from stampede_guard.stores.memory import MemoryStore


async def quality(project: int) -> int:
    return project


async def products(ids: list[int]) -> dict[int, int]:
    return dict.fromkeys(ids, 1)


async def called(key: str, **options: Any) -> None:
    await StampedeGuard.from_url("memory://").get_or_compute(key, lambda: quality(7), **options)


def test_type_checkers_know_every_field_of_a_policy_with_its_type() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(Policy)}
    assert fields.pop("ttl") == "float", "each face has its own: a function of the value may be one"
    hints = get_type_hints(Policy)
    times = {field.name for field in dataclasses.fields(Policy) if field.metadata["unit"] == "s"}
    read = {name: Duration if name in times else hints[name] for name in fields}
    assert get_type_hints(PolicyFields) == read


@pytest.mark.parametrize(
    "face",
    [
        lambda **options: locked_cache(**options)(quality),
        lambda **options: StampedeGuard.from_url("memory://").locked_cache(**options)(quality),
        lambda **options: cached_many(**options)(products),
        lambda **options: StampedeGuard.from_url("memory://").cached_many(**options)(products),
        lambda **options: StampedeGuard.from_url("memory://").single("report:7", **options),
        lambda **options: StampedeGuard.from_url("memory://").policy.replace(**options),
    ],
)
def test_a_wrong_name_is_refused_by_every_face_with_the_nearest_option(face: Callable[..., Any]) -> None:
    with pytest.raises(Misuse, match=r"stale_tl=60 is not allowed: .*\(do you mean stale_ttl\?\)"):
        face(stale_tl=60)


async def test_a_wrong_name_in_a_call_is_refused_with_the_nearest_option() -> None:
    with pytest.raises(Misuse, match=r"do you mean should_cache\?"):
        await called("report:7", shuld_cache=bool)


@pytest.mark.parametrize(
    ("options", "meant"), [({"absent_tl": 5}, "absent_ttl"), ({"resource": {}}, "resources")]
)
def test_options_that_are_not_of_the_policy_are_found_as_well(options: dict[str, Any], meant: str) -> None:
    with pytest.raises(Misuse, match=rf"do you mean {meant}\?"):
        cached_many(**options)


@pytest.mark.parametrize(
    "make", [StampedeGuard.from_url, lambda _, **given: StampedeGuard(MemoryStore(), **given)]
)
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"namspace": "shop"},
            r"has no namspace \(do you mean namespace\?\); it has namespace, policy, limits",
        ),
        ({"ttl": 300}, r"StampedeGuard has no ttl: write policy=Policy\(ttl=\.\.\.\)"),
        ({"max_threads": 8}, r"StampedeGuard has no max_threads: write limits=Limits\(max_threads=\.\.\.\)"),
    ],
)
def test_a_guard_says_where_a_wrong_option_belongs(
    make: Callable[..., Any], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(Misuse, match=text):
        make("memory://", **options)
