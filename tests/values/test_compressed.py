"""Compressed values: every process reads them, small ones are as they were, and hostile ones are only undecodable."""

from __future__ import annotations

import contextlib
import pickle
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard import Policy, PolicyError, StampedeGuard
from stampede_guard.engine.engine import TaggedCodec
from stampede_guard.errors import Misuse, Undecodable
from stampede_guard.values.codec import Codec, codec_for
from stampede_guard.values.codec.batched import ABSENT, ManyCodec
from stampede_guard.values.codec.compressed import LARGEST, MARK, compressing, unpacked
from tests.support.encryption import Rot
from tests.support.sessions import patient

ZSTD = Policy(compression="zstd", compression_min_bytes=100)


class Model(pydantic.BaseModel):
    names: list[str]


@dataclass
class Record:
    names: list[str]


def loads(names: list[str]) -> list[str]:
    return names


CODECS: dict[str, tuple[Codec, Any]] = {
    "builtins": (codec_for(Any), ["name"] * 200),
    "a declared type": (codec_for(list[str]), ["name"] * 200),
    "a dataclass": (codec_for(Record), Record(["name"] * 200)),
    "a model": (codec_for(Model), Model(names=["name"] * 200)),
    "pickle": (codec_for(Any, pickle=True), ["name"] * 200),
    "with a stamp": (codec_for(Any, function=loads, title="loads"), ["name"] * 200),
    "of a batch": (ManyCodec(codec_for(list[str])), ["name"] * 200),
    "with tags": (TaggedCodec(codec_for(list[str])), ["name"] * 200),
    "bytes that look compressed": (codec_for(bytes), MARK + b"\0" * 500),
}


def sized(size: int, frame: bytes) -> bytes:
    return MARK + size.to_bytes(4, "big") + frame


def packed(body: bytes) -> bytes:
    return sized(len(body), zstandard.compress(body))


@pytest.mark.parametrize(("plain", "value"), CODECS.values(), ids=CODECS)
def test_each_kind_of_value_is_smaller_and_read_with_the_option_and_without(plain: Codec, value: Any) -> None:
    codec = compressing(plain, ZSTD)
    body = codec.encode(value)
    assert len(body) < len(plain.encode(value)) / 2
    assert codec.decode(body) == plain.decode(body) == value
    assert codec.decode(plain.encode(value)) == value
    assert codec.fingerprint == plain.fingerprint


@pytest.mark.parametrize(("plain", "value"), CODECS.values(), ids=CODECS)
def test_below_the_threshold_the_bytes_are_those_without_the_option(plain: Codec, value: Any) -> None:
    body = plain.encode(value)
    above = compressing(plain, ZSTD.replace(compression_min_bytes=len(body) + 1))
    assert above.encode(value) == body


def test_a_hit_runs_no_code_of_the_compression_unless_the_value_is_compressed() -> None:
    plain = codec_for(list[str])
    assert compressing(plain, ZSTD).decode == plain.decode
    assert compressing(plain, Policy()) is plain


def test_what_does_not_shrink_is_stored_as_it_is() -> None:
    noise = zstandard.compress(bytes(range(256)) * 3)[:150]
    codec = compressing(codec_for(bytes), ZSTD)
    assert codec.encode(noise) == codec_for(bytes).encode(noise)


def test_an_absent_id_is_still_recognised() -> None:
    codec = compressing(ManyCodec(codec_for(str)), ZSTD.replace(compression_min_bytes=0))
    assert ManyCodec.says_absent(codec.encode(ABSENT))


BOMB = zstandard.compress(b"\0" * (LARGEST + 1))
HOSTILE = {
    "a bomb": sized(LARGEST + 1, BOMB),
    "a bomb that lies": sized(10, BOMB),
    "the largest size": sized(2**32 - 1, zstandard.compress(b"x")),
    "a frame that lies": sized(10, zstandard.compress(b"x")),
    "no size in the frame": sized(1, zstandard.ZstdCompressor(write_content_size=False).compress(b"x")),
    "more after the frame": packed(b"x") + b"y",
    "two frames": packed(b"x") + zstandard.compress(b"x"),
    "cut": packed(b"x" * 999)[:-3],
    "compressed twice": packed(packed(b"x" * 999)),
    "only the mark": MARK,
    "half the mark": MARK[:1],
    "no frame": sized(7, b""),
    "another frame": sized(7, b"\x1f\x8b" + b"\0" * 20),
    "code": packed(pickle.dumps(print)),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "plain", [codec_for(list[str]), codec_for(Any), codec_for(Model), CODECS["of a batch"][0]]
)
def test_hostile_bytes_are_undecodable_and_nothing_else(plain: Codec, body: bytes) -> None:
    with pytest.raises(Undecodable):
        plain.decode(body)


def test_a_bomb_is_refused_before_memory_is_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Never:
        def decompress(self, *_: Any, **__: Any) -> bytes:
            raise AssertionError("asked to unpack")

    monkeypatch.setattr("stampede_guard.values.codec.compressed._decompressor", Never)
    for name in ("a bomb", "a bomb that lies", "the largest size"):
        with pytest.raises(Undecodable, match="size"):
            unpacked(HOSTILE[name])


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 255))
def test_damaged_bytes_decode_to_something_or_are_undecodable(body: bytes, place: int, byte: int) -> None:
    data = bytearray(packed(body * 3))
    data[place % len(data)] = byte
    with contextlib.suppress(Undecodable):
        unpacked(bytes(data))


def test_threads_compress_at_once() -> None:
    codec, wrong = compressing(codec_for(list[str]), ZSTD), []

    def work(name: str) -> None:
        wrong.extend(name for _ in range(200) if codec.decode(codec.encode([name] * 100)) != [name] * 100)

    threads = [threading.Thread(target=work, args=(f"name-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_the_package_the_option_says_what_to_install_and_a_value_is_a_miss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = compressing(codec_for(list[str]), ZSTD).encode(["name"] * 200)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(Misuse, match=r"pip install '.\[compression\]'"):
        compressing(codec_for(list[str]), ZSTD)
    with pytest.raises(Undecodable, match=r"pip install '.\[compression\]'"):
        codec_for(list[str]).decode(body)


@pytest.mark.parametrize("given", ["gzip", True, 3])
def test_another_compression_is_an_error_that_names_the_allowed_ones(given: Any) -> None:
    with pytest.raises(PolicyError, match='it must be "zstd", or None'):
        Policy(compression=given)


async def test_pods_with_and_without_the_option_serve_each_other(valkey_url: str, namespace: str) -> None:
    old = StampedeGuard.from_url(patient(valkey_url), namespace=namespace, encryption=Rot())
    new = StampedeGuard.from_url(patient(valkey_url), namespace=namespace, encryption=Rot(), policy=ZSTD)
    computed: list[str] = []

    def cached(guard: StampedeGuard) -> Any:
        @guard.locked_cache(ttl=60, name="rows", tags=("rows",))
        async def rows(who: str) -> list[str]:
            computed.append(who)
            return [who] * 500

        return rows

    by_old, by_new = cached(old), cached(new)
    try:
        for first, second, who in ((by_new, by_old, "new"), (by_old, by_new, "old")):
            assert await first(who) == await second(who) == [who] * 500
        assert computed == ["new", "old"]
    finally:
        await old.aclose()
        await new.aclose()
