"""Small parts of the herd: settings, the table's tuning, the load's record, what is left in Redis."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.herd.database import percent_for
from bench.herd.load import Load, read_requests
from bench.herd.modes import HAND_WRITTEN, MODES
from bench.herd.settings import AppSettings
from bench.herd.trial import _forget
from bench.herd.valkey import ValkeyServer

SETTINGS = AppSettings(
    mode="guard-stale",
    database_url="postgresql://x",
    redis_url="redis://y",
    namespace="n",
    ttl=4.0,
    stale_ttl=40.0,
)


def test_settings_travel_by_the_environment() -> None:
    assert AppSettings.from_environment(SETTINGS.to_environment()) == SETTINGS


def test_a_missing_or_unknown_setting_is_named() -> None:
    environment = SETTINGS.to_environment()
    with pytest.raises(RuntimeError, match="unknown mode 'magic'"):
        AppSettings.from_environment({**environment, "HERD_MODE": "magic"})
    del environment["HERD_TTL"]
    with pytest.raises(RuntimeError, match="HERD_TTL is not set"):
        AppSettings.from_environment(environment)


def test_every_mode_is_hand_written_or_the_guards() -> None:
    assert [mode for mode in MODES if mode not in HAND_WRITTEN] == [
        "guard",
        "guard-stale",
        "middleware",
    ]


def test_a_slow_machine_gets_fewer_scores_to_convert_and_a_fast_one_more() -> None:
    assert percent_for(seconds=0.45, percent=80) == 80
    assert percent_for(seconds=0.9, percent=80) < 80 < percent_for(seconds=0.42, percent=80)
    assert percent_for(seconds=0.1, percent=80) == 100
    assert percent_for(seconds=9.0, percent=80) == 0


def test_the_ramp_comes_on_top_of_the_measured_seconds() -> None:
    load = Load(users=80, spawn_rate=40, period=0.75, seconds=18)
    assert load.duration == 20


def test_the_loads_record_is_read_back(tmp_path: Path) -> None:
    lines = [
        {"start": 1.0, "seconds": 0.5, "status": 200, "worker": 7, "error": ""},
        {"ramped": 2.0},
        {"start": 3.0, "seconds": 0.1, "status": 0, "worker": 0, "error": "ConnectionError: refused"},
    ]
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ramped, requests = read_requests(path)
    assert ramped == 2.0
    assert [request.failed for request in requests] == [False, True]


def test_a_load_that_never_reached_all_users_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text("")
    with pytest.raises(RuntimeError, match="before all users were started"):
        read_requests(tmp_path / "requests.jsonl")


async def test_a_trial_deletes_its_own_keys_and_no_others(own_valkey: ValkeyServer) -> None:
    client = own_valkey.client()
    for key in ("herd-1:quality", "sg:{herd-1:x}:record", "somebody-else"):
        client.set(key, "1")
    await _forget(own_valkey.url, "herd-1")
    assert client.keys("*") == [b"somebody-else"]
