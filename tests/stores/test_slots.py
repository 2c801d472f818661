"""The map of a cluster, and how its own answer is understood."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from bench.herd.cluster import ValkeyCluster
from stampede_guard.stores.connections.slots import SlotMap, parse_slots, slot_of
from stampede_guard.stores.connections.wire import entry_keys

ASKED = ("seed", 7000)


@pytest.mark.parametrize("name", ["shop:=k", "shop:a}b{c", "shop:{x}", "shop:ключ", "s:" + "x" * 300])
def test_every_key_of_an_entry_lies_in_the_slot_that_the_server_says(
    valkey_cluster: ValkeyCluster, name: str
) -> None:
    with redis.Redis(port=valkey_cluster.servers[0].port) as client:
        slots = {client.execute_command("CLUSTER KEYSLOT", key) for key in entry_keys(name)}
    assert slots == {slot_of(name)}


@pytest.mark.parametrize("name", ["", "}shop"])
def test_a_name_without_a_hash_tag_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="hash tag"):
        slot_of(name)


def holder(reply: Any, slot: int = 5, **options: Any) -> Any:
    return parse_slots(reply, asked=ASKED, **options).holder(slot)


def test_the_first_server_of_a_range_holds_it() -> None:
    reply = [[0, 9, [b"a", 1, b"id"], [b"replica", 2, b"id"]], [10, 16383, [b"b", 3, b"id", [b"more"]]]]
    assert (holder(reply, 9), holder(reply, 10)) == (("a", 1), ("b", 3))
    whole = parse_slots(reply, asked=ASKED)
    assert whole.complete and whole.masters == {("a", 1), ("b", 3)}


@pytest.mark.parametrize("host", [b"", None])
def test_a_server_that_does_not_know_its_host_means_the_one_that_was_asked(host: bytes | None) -> None:
    assert holder([[0, 9, [host, 1, b"id"]]]) == ("seed", 1)


def test_a_server_without_a_name_yet_holds_nothing() -> None:
    found = parse_slots([[0, 9, [b"?", 1, b"id"]]], asked=ASKED)
    assert found.holder(5) is None and not found.complete and found.masters == set()


def test_addresses_may_be_seen_differently_from_here() -> None:
    assert holder([[0, 9, [b"a", 1, b"id"]]], remap=lambda address: (address[0], 10)) == ("a", 10)


def test_a_redirection_is_remembered() -> None:
    known = SlotMap([(0, 16383, ("a", 1))])
    known.move(7, ("b", 2))
    assert (known.holder(6), known.holder(7)) == (("a", 1), ("b", 2))
    assert known.masters == {("a", 1), ("b", 2)}


@pytest.mark.parametrize(
    "reply", [None, 1, [1], [[0, 9]], [[0, 9, []]], [[0, 99999, [b"a", 1]]], [[5, 4, [b"a", 1]]]]
)
def test_an_answer_of_another_shape_is_an_error(reply: Any) -> None:
    with pytest.raises(ValueError, match="unknown shape"):
        parse_slots(reply, asked=ASKED)
