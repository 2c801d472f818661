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
