"""A cache for files that are expensive to make and are the same every time. They are complete, or not there at all.

A finished directory gets its name by one rename, so a half-made one is never mistaken for it. A file lock makes the
second of two runs wait for the first, so the same thing is not made twice. Nothing writes into a finished directory
later: servers run on copies of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.herd import processes
from bench.herd.account import Account

__all__ = ["cache_directory", "made_once"]


def cache_directory(account: Account) -> Path:
    """The place for made things: $STAMPEDE_GUARD_CACHE, else the user's (root: the machine's) cache.

    A directory that `account` could not enter is skipped, because the modes of other users' folders are not changed. If
    none is left, a temporary one is used and nothing is kept.
    """
    for candidate in _candidates():
        with contextlib.suppress(OSError):
            candidate.mkdir(parents=True, exist_ok=True)
            if os.access(candidate, os.W_OK) and account.may_enter(candidate):
                return candidate
    return account.open_to(processes.temporary_directory("herd-cache-"))


def _candidates() -> Iterator[Path]:
    chosen = os.environ.get("STAMPEDE_GUARD_CACHE")
    if chosen:
        yield Path(chosen).absolute()
    if os.geteuid() == 0:
        yield Path("/var/cache/stampede_guard")
    else:
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stampede_guard"


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """`target`, made by `make(directory)` if it is not there; what an earlier crash left is removed."""
    if target.is_dir():
        return target
    with _locked(target.with_name(f"{target.name}.lock")):
        if target.is_dir():
            return target
        for leftover in target.parent.glob(f"{target.name}.making-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        making = Path(tempfile.mkdtemp(prefix=f"{target.name}.making-", dir=target.parent))
        try:
            make(making)
            making.rename(target)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return target


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
