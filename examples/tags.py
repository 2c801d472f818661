"""One write outdates many entries: all pages of a project, and nothing else, with one command.

    python examples/tags.py

prints, the first time:

    computed project 7, page 1
    computed project 7, page 2
    computed project 8, page 1
    served from the cache
    project 7 was invalidated: done
    computed project 7, page 1
    computed project 7, page 2
"""

from __future__ import annotations

import asyncio
import os

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guard = StampedeGuard.from_url(URL, namespace="tags")


@guard.locked_cache(ttl=300, tags=("project:{project}", "tasks"))
async def tasks(project: int, page: int) -> list[str]:
    print(f"computed project {project}, page {page}")
    return [f"task {page}.{number}" for number in range(3)]


async def show() -> None:
    for project, page in ((7, 1), (7, 2), (8, 1)):
        await tasks(project, page)


async def main() -> None:
    async with guard:
        await show()
        await show()
        print("served from the cache")

        # After a write to the project: no worker serves what was computed before, however many pages there are.
        print("project 7 was invalidated:", await guard.invalidate_tag("project:7"))
        await show()


if __name__ == "__main__":
    asyncio.run(main())
