"""Shares work among processes. A file may kill the process that reads it."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.context import BaseContext
from typing import TypeVar

_T = TypeVar("_T")
_AHEAD = 4  # chunks queued per process, while the walk through the folders continues


def shared(
    work: Callable[[list[str]], _T], chunks: Iterator[list[str]], jobs: int, *, lost: Callable[[str], _T]
) -> Iterator[_T]:
    """The results of `work` for each chunk, in any order. `lost` gives the result for a file that kills its
    process.
    """
    interrupted: list[list[str]] = []
    with ProcessPoolExecutor(jobs, _context(), _begin) as pool:
        waiting: dict[Future[_T], list[str]] = {}
        try:
            for chunk in islice(chunks, jobs * _AHEAD):
                interrupted = [chunk]
                waiting[pool.submit(work, chunk)] = chunk
            interrupted = []
            while waiting:
                part = wait(waiting, return_when=FIRST_COMPLETED).done.pop()
                yield part.result()
                del waiting[part]
                for chunk in islice(chunks, 1):
                    interrupted = [chunk]
                    waiting[pool.submit(work, chunk)] = chunk
                    interrupted = []
        except BrokenProcessPool:
            interrupted += waiting.values()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    for chunk in interrupted:
        yield from _halved(work, chunk, lost)
    if interrupted:
        yield from shared(work, chunks, jobs, lost=lost)


def _halved(work: Callable[[list[str]], _T], files: list[str], lost: Callable[[str], _T]) -> Iterator[_T]:
    """Runs the chunk in its own process. If that dies, runs its halves, until the file is found."""
    try:
        with ProcessPoolExecutor(1, _context(), _begin) as pool:
            yield pool.submit(work, files).result()
        return
    except BrokenProcessPool:
        pass
    if len(files) == 1:
        yield lost(files[0])
        return
    middle = len(files) // 2
    yield from _halved(work, files[:middle], lost)
    yield from _halved(work, files[middle:], lost)


def _begin() -> None:
    """Only the first process handles an interrupt. A pool that breaks ends its processes: no inherited handler may
    keep one of them alive, which would then keep the pipes of its parent open.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _context() -> BaseContext:
    """A fork is fast. If threads are running, or fork is missing, a fresh process is safer."""
    can_fork = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    return multiprocessing.get_context("fork" if can_fork and threading.active_count() == 1 else "spawn")
