"""A holder that forks. The child asks for the same lease; then the parent goes on with its own.

python -m tests.leases.forking URL NAMESPACE
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys

from stampede_guard.errors import LeaseTaken
from stampede_guard.leases import Leases
from stampede_guard.leases.keeping.keeper import Keeper
from tests.leases.contender import leases_at


def child(leases: Leases, keeper: Keeper) -> None:
    async def ask() -> None:
        # As by leaving the block in which it was forked.
        print(f"child:{type(await keeper.release()).__name__}", flush=True)
        try:
            async with leases.hold("import", wait=0):
                print("child:granted", flush=True)
        except LeaseTaken:
            print("child:taken", flush=True)

    asyncio.run(ask())
    # What a child collects sooner or later: copies of its parent's connections.
    leases._parts.clear()
    gc.collect()


def main() -> None:
    leases = leases_at(sys.argv[1], sys.argv[2])
    loop = asyncio.new_event_loop()

    async def hold() -> None:
        async with leases.hold("import") as lease:
            number = await asyncio.to_thread(fork, lease._keeper)
            await asyncio.to_thread(os.waitpid, number, 0)
            await lease.check()
            print("parent:held", flush=True)
            backend = lease._keeper.part.backend
            await backend.renew(
                lease._keeper.name,
                holder=lease._keeper.holder,
                token=lease.token,
                lease_ttl=60,
                timeout=10,
            )
            print("parent:renewed", flush=True)
        await leases.aclose()

    def fork(keeper: Keeper) -> int:
        # In a thread: the child then has no running loop, as a worker that a pre-forking server makes.
        number = os.fork()
        if number == 0:
            try:
                child(leases, keeper)
            finally:
                os._exit(0)
        return number

    loop.run_until_complete(hold())


if __name__ == "__main__":
    main()
