"""Old and new pods in a rolling deploy: values of another shape, from functions whose return type says nothing."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.errors import Undecodable
from stampede_guard.values.codec import codec_for
from stampede_guard.values.codec.stamped import MOST_LOOKS, STAMP_BYTES, _shape_of, opened_stamp, stamp_of
from tests.support.inside import store_of

PROGRAM = """
    import asyncio, logging, os, sys
    from stampede_guard import StampedeGuard
    logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
    guard = StampedeGuard.from_url(os.environ["URL"], namespace=os.environ["NAMESPACE"])

    @guard.locked_cache(ttl=600, name="shop.quality"{options})
    async def quality(project){annotation}:
        {body}

    async def main():
        async with guard:
            for project in sys.argv[1:]:
                print("VALUE", await quality(project))

    asyncio.run(main())
"""
OLD = "return {'share': 0.5, 'secret-7': project}"


class Pods:
    """Real processes on one server, each with a source of its own."""

    def __init__(self, url: str, namespace: str, folder: Path) -> None:
        self._environment = {**os.environ, "URL": url, "NAMESPACE": namespace}
        self._folder = folder

    def run(self, *projects: str, body: str = OLD, options: str = "", annotation: str = "") -> list[str]:
        """What a process says that calls `quality` for these projects, and ends."""
        file = self._folder / "shop.py"
        file.write_text(textwrap.dedent(PROGRAM).format(body=body, options=options, annotation=annotation))
        told = subprocess.run(
            [sys.executable, str(file), *projects],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        return told.stdout.splitlines()

    def warnings(self, *projects: str, **source: str) -> list[str]:
        return [line for line in self.run(*projects, **source) if line.startswith("WARNING")]


@pytest.fixture
def pods(valkey_url: str, namespace: str, tmp_path: Path) -> Pods:
    return Pods(valkey_url, namespace, tmp_path)


NEW_SHAPE = "return {'part': 0.5, 'of': project}"
NEW_MEANING = "return {'share': 50.0, 'secret-7': project}"


class TestTwoProcessesWithDifferentCode:
    def test_another_shape_is_told_once_with_the_cure_and_without_values(self, pods: Pods) -> None:
        assert pods.warnings("a", "b", "c") == []
        told = pods.run("a", "a", "x", "b", "c", body=NEW_SHAPE)
        assert "VALUE {'share': 0.5, 'secret-7': 'a'}" in told, "it is told of, and served all the same"
        warnings = [line for line in told if line.startswith("WARNING")]
        assert [("version of its code" in line, "another shape" in line) for line in warnings] == [
            (True, False),
            (True, True),
        ]
        for line in warnings:
            assert "shop.quality" in line and "version='auto'" in line and "annotate" in line
            assert "secret" not in line and "project" not in line

    def test_a_process_that_has_computed_first_tells_of_the_shape_only(self, pods: Pods) -> None:
        pods.run("a")
        (told,) = pods.warnings("x", "a", "a", body=NEW_SHAPE)
        assert "another shape" in told

    def test_old_pods_say_it_of_the_new_ones_values(self, pods: Pods) -> None:
        pods.run("a", body=NEW_SHAPE)
        (told,) = pods.warnings("x", "a")
        assert "another shape" in told

    def test_a_value_of_other_code_is_told_of_before_there_is_one_to_compare_with(self, pods: Pods) -> None:
        pods.run("a")
        (told,) = pods.warnings("a", "a", body=NEW_MEANING)
        assert "another version of its code" in told and "shape:" not in told

    def test_other_code_with_values_of_the_same_shape_is_not_told_of(self, pods: Pods) -> None:
        pods.run("a", "b")
        assert pods.warnings("x", "a", "b", body=NEW_MEANING) == []

    def test_the_same_code_in_another_place_is_the_same(self, pods: Pods) -> None:
        pods.run("a")
        assert (
            pods.warnings("a", "x", body="# a comment\n        return {'share': 0.5, 'secret-7': project}")
            == []
        )

    @pytest.mark.parametrize(
        "source",
        [
            {"options": ', version="auto"'},
            {"annotation": " -> dict[str, float | str]"},
        ],
        ids=["version", "annotation"],
    )
    def test_both_cures_end_it(self, pods: Pods, source: dict[str, str]) -> None:
        pods.run("a", "b", **source)
        assert pods.warnings("a", "x", "b", body=NEW_SHAPE, **source) == []

    @pytest.mark.parametrize("annotation", [" -> dict", " -> object", " -> dict[str, object]"])
    def test_an_annotation_that_leaves_the_shape_open_is_as_none(self, pods: Pods, annotation: str) -> None:
        pods.run("a", annotation=annotation)
        (told,) = pods.warnings("x", "a", body=NEW_SHAPE, annotation=annotation)
        assert "another shape" in told


def shaped(value: Any) -> Any:
    shape = _shape_of(value)
    assert shape is not None
    return shape


SAME = [
    ({"a": 1}, {"a": 2.5}),
    ({"a": None}, {"a": "text"}),
    ({"a": []}, {"a": ["text"]}),
    ([{"a": 1}, {"a": 2}], [{"a": 3}]),
    ([None, 1], [2]),
    ({1: "a"}, {2: "b", 3: "c"}),
    ({str(number): 1 for number in range(40)}, {str(number): 1 for number in range(50)}),
    ({"a": {"b": {"c": {"d": 1}}}}, {"a": {"b": {"c": {"e": 1}}}}),
]
DIFFERENT = [
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, {"a": 1, "b": 1}),
    ({"a": 1}, {"a": "1"}),
    ({"a": True}, {"a": 1}),
    ([1], (1,)),
    ([{"a": 1}], [{"b": 1}]),
    ({"a": {"b": 1}}, {"a": {"c": 1}}),
    ("text", b"text"),
    ({1: "a"}, {1: 2}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_differs_from_value_to_value_is_no_other_shape(one: Any, other: Any) -> None:
    assert shaped(one).fits(shaped(other)) and shaped(other).fits(shaped(one))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_keys_and_types_are_another_shape(one: Any, other: Any) -> None:
    assert not shaped(one).fits(shaped(other)) and not shaped(other).fits(shaped(one))


def made(factor: Any, shape: str = "{'n': project * factor}") -> Any:
    namespace: dict[str, Any] = {}
    exec(f"async def quality(project, factor={factor!r}):\n  return {shape}", namespace)
    return namespace["quality"]


class TestTheCodec:
    def test_values_without_a_stamp_are_decoded_as_before(self, caplog: pytest.LogCaptureFixture) -> None:
        """Entries of a process with an older version of the library."""
        stamped, plain = codec_for(Any, function=made(1), title="before"), codec_for(Any)
        assert stamped.fingerprint == plain.fingerprint, "and they are found"
        for value in ({"a": 1}, None, "text", 7, [1, (2, 3)]):
            assert stamped.decode(plain.encode(value)) == value
        assert not caplog.records

    def test_a_value_and_its_stamp(self) -> None:
        codec = codec_for(Any, function=made(1), title="stamped")
        body = codec.encode({"a": 1})
        assert body.startswith(stamp_of(made(1))) and len(stamp_of(made(1))) == STAMP_BYTES
        assert stamp_of(made(1)) != stamp_of(made(2))
        assert opened_stamp(body) == codec_for(Any).encode({"a": 1}) == opened_stamp(opened_stamp(body))
        assert codec.decode(body) == {"a": 1}

    @pytest.mark.parametrize(
        "damaged", [b"", b"\xd7", b"\xd7\x0d\x00", stamp_of(made(1)), b"\xd7\x0d" * 15, b"\xc1"]
    )
    def test_damaged_bytes_are_undecodable(self, damaged: bytes) -> None:
        with pytest.raises(Undecodable):
            codec_for(Any, function=made(1), title="damaged").decode(damaged)

    def test_what_has_no_code_goes_without(self) -> None:
        codec = codec_for(Any, function=len, title="builtin")
        assert codec.encode(7) == codec_for(Any).encode(7)

    def test_another_python_s_bytecode_is_no_other_code(self, caplog: pytest.LogCaptureFixture) -> None:
        ours, theirs = (codec_for(Any, function=made(n), title="python") for n in (1, 2))
        body = bytearray(theirs.encode({"a": 1}))
        body[2] += 1
        ours.decode(bytes(body))
        assert not caplog.records
        ours.encode({"b": 1})
        assert len(caplog.records) == 1 and "another shape" in caplog.text

    def test_a_function_whose_own_values_differ_is_compared_by_kind_only(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ours, theirs = (codec_for(Any, function=made(n), title="varied") for n in (1, 2))
        for value in ({"ann": 1}, {"bob": 1}, None):
            ours.decode(ours.encode(value))
        ours.decode(theirs.encode({"cid": 1}))
        assert not caplog.records
        ours.decode(theirs.encode(["cid"]))
        assert len(caplog.records) == 1

    def test_a_process_that_reads_only_learns_from_its_own_code_elsewhere(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ours, theirs = (codec_for(Any, function=made(n), title="reader") for n in (1, 2))
        elsewhere = ours._stamp + codec_for(Any).encode({"a": 1})  # type: ignore[attr-defined]
        ours.decode(theirs.encode({"b": 1}))
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        ours.decode(elsewhere)
        assert len(caplog.records) == 2 and "another shape" in caplog.records[1].getMessage()

    def test_what_is_looked_at_is_bounded(self, caplog: pytest.LogCaptureFixture) -> None:
        ours, theirs = (codec_for(Any, function=made(n), title="bounded") for n in (1, 2))
        ours.encode({"a": 1})
        body = theirs.encode({"a": 2})
        for _ in range(MOST_LOOKS):
            assert ours.decode(body) == {"a": 2}
        assert ours.decode(theirs.encode({"b": 1})) == {"b": 1}
        assert not caplog.records

    def test_a_function_that_is_decorated_in_each_request_is_told_of_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        body = codec_for(Any, function=made(2), title="again").encode({"b": 1})
        for _ in range(5):
            ours = codec_for(Any, function=made(1), title="again")
            ours.encode({"a": 1})
            ours.decode(body)
        assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "options",
    [{}, {"tags": ("p:{project}",)}, {"pickle": True}, {"share": True}, {"l1_ttl": 60.0}],
    ids=["plain", "tags", "pickle", "share", "l1"],
)
async def test_every_kind_of_entry_tells_it(
    options: dict[str, Any], namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "stampede_guard")
    async with StampedeGuard.from_url("memory://", namespace=namespace) as before:
        old = before.locked_cache(ttl=60, name=f"{namespace}.q", **options)(made(1))
        async with StampedeGuard(store_of(before), namespace=namespace) as after:
            new = after.locked_cache(ttl=60, name=f"{namespace}.q", **options)(made(1, "[project]"))
            assert await old(7) == {"n": 7} and await new(8) == [8]
            assert await new(7) == {"n": 7} == await new(7)
    assert [record.getMessage().count("another shape") for record in caplog.records] == [1]


async def test_functions_of_many_ids_tell_it(namespace: str, caplog: pytest.LogCaptureFixture) -> None:
    def source(shape: str) -> Any:
        held: dict[str, Any] = {}
        exec(f"async def many(ids: list[int]):\n  return {{n: {shape} for n in ids}}", held)
        return held["many"]

    async with StampedeGuard.from_url("memory://", namespace=namespace) as before:
        old = before.cached_many(ttl=60, name=f"{namespace}.m")(source("{'a': n}"))
        async with StampedeGuard(store_of(before), namespace=namespace) as after:
            new = after.cached_many(ttl=60, name=f"{namespace}.m")(source("{'b': n}"))
            assert await old([1]) == {1: {"a": 1}} and await new([1, 2]) == {1: {"a": 1}, 2: {"b": 2}}
    assert "another shape" in caplog.text


def test_object_in_an_annotation_is_anything() -> None:
    codec = codec_for(dict[str, object])
    for value in ({"a": 1, "b": [{"c": (1, 2)}], "d": None}, {}):
        assert codec.decode(codec.encode(value)) == value
