"""One line for every herd that was collapsed, with numbers in it for your metrics.

    python examples/logs.py

prints, the first time:

    stampede_guard quality: 20 callers were served by one flight
    function=quality callers=20 collapsed=19
"""

from __future__ import annotations

import asyncio
import logging
import os

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guard = StampedeGuard.from_url(URL, namespace="logs")


@guard.locked_cache(ttl=300, name="quality")
async def quality(project: int) -> int:
    await asyncio.sleep(0.1)
    return project


class Printing(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(record.name, record.getMessage())
        numbers = {name: getattr(record, name) for name in ("function", "callers", "collapsed")}
        print(*[f"{name}={number}" for name, number in numbers.items()])


async def main() -> None:
    log = logging.getLogger("stampede_guard")
    log.setLevel(logging.INFO)
    log.addHandler(Printing())
    async with guard:
        await asyncio.gather(*[quality(7) for _ in range(20)])


if __name__ == "__main__":
    asyncio.run(main())
