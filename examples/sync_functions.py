"""Plain functions and methods: no event loop anywhere, the same one computation.

    python examples/sync_functions.py

prints, the first time:

    computed in a thread of the guard
    50 threads have: {70}
    after the invalidation: 70, computed 2 times
    two objects of the same shop: 1 computation
    without a stable key: parameter 'self' of till.total() is a Till and cannot be part of its key
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from stampede_guard import KeyPartError, StampedeGuard

guard = StampedeGuard.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"), namespace="sync")
computed: list[str] = []


@guard.locked_cache(ttl=60)
def quality(project: int) -> int:  # in FastAPI, a sync endpoint is decorated just so
    computed.append(threading.current_thread().name)
    return project * 10


class Shop:
    def __init__(self, number: int) -> None:
        self.number = number

    def __cache_key__(self) -> int:  # what takes the object's place in the keys of its methods
        return self.number

    @guard.locked_cache(ttl=60)
    def sales(self, day: str) -> int:
        computed.append(day)
        return self.number


class Till:
    @guard.locked_cache(ttl=60, name="till.total")
    def total(self) -> int:
        return 1


def main() -> None:
    with ThreadPoolExecutor(50) as callers:
        values = list(callers.map(quality, [7] * 50))
    print("computed in a thread of the guard" if computed == ["stampede_guard computation"] else computed)
    print(len(values), "threads have:", set(values))

    quality.invalidate(7)
    print(f"after the invalidation: {quality(7)}, computed {len(computed)} times")

    computed.clear()
    Shop(3).sales("monday"), Shop(3).sales("monday")
    print("two objects of the same shop:", len(computed), "computation")
    Shop(3).sales.invalidate("monday")  # bound, like the call

    try:
        Till().total()
    except KeyPartError as error:
        print("without a stable key:", str(error).partition(":")[0])
    guard.close()  # or let it be closed when the process ends


if __name__ == "__main__":
    main()
