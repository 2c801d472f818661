"""What must run once runs once: a lease, an election that is handed over, a function that never runs twice at a time.

    python examples/leases.py

In memory, two "processes" over the same rows. In production they are real ones: PostgresLeases.from_url("postgresql://
...", namespace="shop") or RedisLeases.from_url("redis://...", namespace="shop"). It prints, the first time:

    a holds the import
    b is told: held by a
    b holds it now, with a greater token: True
    a leads: True, b leads: False
    a has resigned, b leads: True
    of 3 calls ran 1
"""

from __future__ import annotations

import asyncio

from stampede_guard.leases import SKIPPED, LeaseTaken, MemoryLeases

a = MemoryLeases(namespace="shop", label="a")
b = MemoryLeases(namespace="shop", label="b", rows=a.rows)


async def one_after_the_other() -> None:
    async with a.hold("import", lease_ttl=60) as first:
        print("a holds the import")
        try:
            async with b.hold("import", wait=0):
                raise AssertionError("never two at a time")
        except LeaseTaken as taken:
            print(f"b is told: held by {taken.holder.split()[0]}")
    async with b.hold("import") as second:
        print(f"b holds it now, with a greater token: {second.token > first.token}")


async def handed_over() -> None:
    blue, green = a.election("leader"), b.election("leader")
    async with blue:
        await blue.wait_elected()
        async with green:
            print(f"a leads: {blue.is_leader}, b leads: {green.is_leader}")
            await blue.resign(to="b")
            await green.wait_elected(timeout=5)
            print(f"a has resigned, b leads: {green.is_leader}")


@a.run_exclusive("report", overlap="skip")
async def report() -> str:
    await asyncio.sleep(0.1)
    return "done"


async def main() -> None:
    await one_after_the_other()
    await handed_over()
    results = await asyncio.gather(report(), report(), report())
    print(f"of 3 calls ran {sum(result is not SKIPPED for result in results)}")
    await a.aclose()
    await b.aclose()


asyncio.run(main())
