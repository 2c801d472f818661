"""The values of a function of many ids, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard.errors import Misuse, Undecodable
from stampede_guard.values.codec import codec_for
from stampede_guard.values.codec.batched import ABSENT, ManyCodec, checked


@pytest.mark.parametrize("value", [0, "", None, {"a": [1]}, ABSENT])
def test_a_value_and_an_absent_one_come_back_as_they_were(value: Any) -> None:
    codec = ManyCodec(codec_for(Any))
    found = codec.decode(codec.encode(value))
    assert found is ABSENT if value is ABSENT else found == value


def test_bytes_of_another_kind_of_entry_are_undecodable() -> None:
    with pytest.raises(Undecodable, match="not those of an entry of a batch"):
        ManyCodec(codec_for(int)).decode(codec_for(int).encode(7))


def test_an_id_that_nobody_asked_for_is_an_error_that_names_types_only() -> None:
    assert checked({1: "a"}, [1, 2], "shop.prices") == {1: "a"}
    with pytest.raises(Misuse, match=r"1 ids that nobody asked for \(str\); it was given 2 \(int\)") as told:
        checked({"secret": "a"}, [1, 2], "shop.prices")
    assert "secret" not in str(told.value)
    with pytest.raises(Misuse, match="must return a dict from id to value, and returned a list"):
        checked([1, 2], [1, 2], "shop.prices")
