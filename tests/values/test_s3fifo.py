"""Room that is bounded by bytes and entries, and not swept clean by names that are used once."""

from __future__ import annotations

import random

import pytest

from stampede_guard.values.s3fifo import MOST_GHOSTS, Bounded, Item

HOT = [f"hot {number}" for number in range(200)]
FLOOD = 100_000


def use(room: Bounded[Item], name: str, size: int = 1) -> None:
    """As a cache does: look, and on a miss put."""
    item = room.items.get(name)
    if item is not None:
        item.hits += 1
    else:
        room.put(name, Item(size))


def consistent(room: Bounded[Item]) -> bool:
    queued = {**room._small, **room._main}
    return (
        queued == room.items
        and len(room._small) + len(room._main) == len(room)
        and room.bytes == sum(item.size for item in room.items.values())
        and room._small_bytes == sum(item.size for item in room._small.values())
    )


@pytest.mark.parametrize("bounds", [{"max_bytes": 100_000}, {"max_bytes": 10**9, "max_entries": 1000}])
def test_a_flood_of_names_used_once_leaves_the_hot_ones(bounds: dict[str, int]) -> None:
    room: Bounded[Item] = Bounded(**bounds)
    for _ in range(2):
        for name in HOT:
            use(room, name, 100)
    for number in range(FLOOD):
        use(room, f"random {number}", 100)
    assert [name for name in HOT if name in room.items] == HOT, "none was used while the flood lasted"
    assert len(room) == 1000 and room.bytes == 100_000
    assert consistent(room) and len(room._ghosts) <= MOST_GHOSTS


def test_hot_names_get_in_while_a_flood_lasts() -> None:
    room: Bounded[Item] = Bounded(max_bytes=1000)
    chance = random.Random(7)
    for number in range(FLOOD):
        use(room, f"random {number}")
        if number % 4 == 0:
            use(room, chance.choice(HOT))
    assert sum(name in room.items for name in HOT) >= 190


def test_what_is_not_used_any_more_makes_room_for_what_is() -> None:
    room: Bounded[Item] = Bounded(max_bytes=300)
    for name in HOT * 5:
        use(room, name)
    for _ in range(20):
        for number in range(250):
            use(room, f"new {number}")
    assert sum(f"new {number}" in room.items for number in range(250)) >= 240


def test_a_name_that_was_put_out_and_comes_again_stays() -> None:
    room: Bounded[Item] = Bounded(max_bytes=100)
    for number in range(150):
        use(room, f"{number}")
    assert "0" not in room.items
    use(room, "100")
    before = set(room.items)
    gone = next(f"{number}" for number in range(149, -1, -1) if f"{number}" not in before)
    use(room, gone)
    for number in range(FLOOD // 100):
        use(room, f"more {number}")
    assert gone in room.items


def test_what_is_larger_than_the_room_is_not_taken_and_its_older_self_goes() -> None:
    room: Bounded[Item] = Bounded(max_bytes=10)
    room.put("a", Item(10))
    room.put("b", Item(11))
    assert list(room.items) == ["a"]
    room.put("a", Item(11))
    assert (len(room), room.bytes) == (0, 0)


def test_who_asked_is_told_what_had_to_go() -> None:
    gone: list[str] = []
    room: Bounded[Item] = Bounded(max_bytes=2, put_out=gone.append)
    for name in "abcd":
        room.put(name, Item(1))
    room.take("c")
    assert gone == ["a", "b"] and list(room.items) == ["d"]


def test_the_count_is_right_whatever_happens() -> None:
    chance = random.Random(11)
    room: Bounded[Item] = Bounded(max_bytes=500, max_entries=60)
    for _ in range(20_000):
        name = f"{chance.randrange(200)}"
        match chance.randrange(10):
            case 0:
                room.take(name)
            case 1 | 2:
                room.put(name, Item(chance.randrange(1, 60)))
            case 3 if not chance.randrange(300):
                room.clear()
            case _:
                use(room, name, chance.randrange(1, 60))
        assert room.bytes <= 500 and len(room) <= 60
    assert consistent(room)
