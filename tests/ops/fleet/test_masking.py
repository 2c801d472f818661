"""A viewer without names sees hashes, also while another viewer makes the processes publish names."""

from __future__ import annotations

from stampede_guard.ops.fleet.masking import masked
from stampede_guard.ops.fleet.snapshot import snapshot
from stampede_guard.stores.fleet.stream import Happening, hashed

NAME = "shop:shop.quality:ada@example.org"
HASH = hashed(NAME)


def happening(key: str, kind: str = "asked", **detail: object) -> Happening:
    return Happening(7.0, kind, "pod/host/1", "shop.quality", key, detail)


def test_a_name_becomes_its_hash_and_a_hash_stays() -> None:
    assert masked(happening(NAME)).key == HASH
    assert masked(happening(HASH)) == happening(HASH)
    assert masked(happening("")) == happening("")
    assert masked(happening("#ada")).key == hashed("#ada"), "not each name that begins so is a hash"


def test_details_do_not_repeat_the_name() -> None:
    told = masked(happening(NAME, "refused", why=f"{NAME} is too large", token=7)).detail
    assert told == {"why": f"{HASH} is too large", "token": 7}


def test_what_an_operator_said_is_left_out_because_it_names_entries() -> None:
    told = masked(happening("", "operator", what="invalidate", user="bob", said=f"invalidated {NAME}")).detail
    assert told == {"what": "invalidate", "user": "bob", "said": "invalidate"}


def test_calls_of_a_name_and_of_its_hash_are_one_entry() -> None:
    fields = {b"hot:f\n" + NAME.encode(): b"3", b"hot:f\n" + HASH.encode(): b"4"}
    (hot,) = snapshot({1: fields}).hottest
    assert (hot.key, hot.calls) == (HASH, 7)
    assert {hot.key for hot in snapshot({1: fields}, shows_names=True).hottest} == {NAME, HASH}
