"""The state of a fleet, put together from its slots."""

from __future__ import annotations

from stampede_guard.ops.fleet.snapshot import MOST_HOT, Adding, HotEntry, snapshot


def test_a_function_has_hottest_keys_although_all_the_hottest_of_the_fleet_are_of_another() -> None:
    fields = {b"hot:loud\n#%016x" % number: b"1000" for number in range(2 * MOST_HOT)}
    fields |= {b"hot:quiet\n#%016x" % number: b"%d" % (number + 1) for number in range(2 * MOST_HOT)}
    adding = Adding()
    for slot in (7, 8):
        adding.add(snapshot({slot: fields}))
    for seen, times in ((snapshot({7: fields}), 1), (adding.sum, 2)):
        assert {hot.function for hot in seen.hottest} == {"loud"} and len(seen.hottest) == MOST_HOT
        hottest = seen.hottest_of("quiet")
        assert len(hottest) == MOST_HOT
        assert hottest[0] == HotEntry("quiet", f"#{2 * MOST_HOT - 1:016x}", times * 2 * MOST_HOT)
        assert seen.hottest_of("none") == []


def test_the_mode_of_a_function_is_that_of_the_newest_slot_which_tells_it() -> None:
    old = {b"runs:f\non": b"3", b"runs:g\non:0.1": b"2", b"runs:g\nshadow": b"1"}
    new = {b"runs:f\nbypass": b"2", b"runs:f\n<b>": b"1", b"runs:h": b"1", b"runs:i\noff": b"x"}
    adding = Adding()
    for slot, fields in ((7, old), (8, new)):
        adding.add(snapshot({slot: fields}))
    for seen in (snapshot({8: new, 7: old}), adding.sum):
        assert seen.modes == {"f": {"bypass": 2}, "g": {"on:0.1": 2, "shadow": 1}}
        assert [seen.mode_of(title) for title in "fgh"] == ["bypass", "on:0.1 in 2, shadow in 1", ""]
