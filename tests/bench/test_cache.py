"""A made directory is whole or not there, whoever crashes or comes at the same time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bench.herd.account import Account
from bench.herd.cache import cache_directory, made_once


def test_it_is_made_once_and_found_afterwards(tmp_path: Path) -> None:
    made = []

    def make(directory: Path) -> None:
        made.append(directory)
        (directory / "file").write_text("content")

    for _ in range(2):
        assert (made_once(tmp_path / "thing", make) / "file").read_text() == "content"
    assert len(made) == 1


def test_a_failed_attempt_leaves_nothing_that_could_be_taken_for_the_whole(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half").write_text("")
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        made_once(tmp_path / "thing", fail)
    assert not (tmp_path / "thing").exists()
    assert list(tmp_path.glob("*making*")) == []
    made_once(tmp_path / "thing", lambda directory: (directory / "whole").touch())
    assert (tmp_path / "thing" / "whole").exists()


def test_what_a_killed_run_left_behind_is_removed_and_not_used(tmp_path: Path) -> None:
    leftover = tmp_path / "thing.making-killed"
    leftover.mkdir()
    made_once(tmp_path / "thing", lambda directory: (directory / "whole").touch())
    assert not leftover.exists()


def test_of_two_runs_at_once_one_makes_it_and_the_other_waits(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()
    made = []

    def make(directory: Path) -> None:
        made.append(directory)
        begun.set()
        assert go_on.wait(60)

    threads = [threading.Thread(target=made_once, args=(tmp_path / "thing", make)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert len(made) == 1


def test_the_environment_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_CACHE", str(tmp_path / "deep" / "cache"))
    assert cache_directory(Account()) == tmp_path / "deep" / "cache"
    assert (tmp_path / "deep" / "cache").is_dir()


def test_a_directory_that_the_servers_account_cannot_enter_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("STAMPEDE_GUARD_CACHE", str(closed))
    other = Account(user=12345, group=12345)
    assert not other.may_enter(closed)
    assert cache_directory(Account()) == closed
    assert closed.stat().st_mode & 0o777 == 0o700
