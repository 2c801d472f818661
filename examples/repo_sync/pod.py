"""One pod: it follows the schedule like all others, and synchronises when the tick is its own.

python -m examples.repo_sync.pod        # DATABASE_URL, REPOSITORIES and POD_NAME say the rest
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import asyncpg

from examples.repo_sync import repositories
from examples.repo_sync.vectors import Point, Vectors, points_of
from stampede_guard.jobs import Jobs, Run
from stampede_guard.leases import PostgresLeases

NAMESPACE = "repo-sync"
EVERY = 2
log = logging.getLogger("repo_sync")
PACE = 0.1
"""Seconds that each chunk takes, as the service of a real embedding would."""


class Synchroniser:
    def __init__(self, root: Path, vectors: Vectors) -> None:
        self._root = root
        self._vectors = vectors

    async def sync(self, run: Run) -> None:
        """Everything that was committed since the last run that got through; what was begun is begun again."""
        log.info("%s: what is new since %s", run.key, run.last_success_at or "ever")
        for repository in await asyncio.to_thread(repositories.repositories, self._root):
            done = await self._vectors.commit_of(repository.name)
            head = await asyncio.to_thread(repositories.head, repository)
            if head != done:
                await self._catch_up(run, repository, done or repositories.NOTHING, head)
                await self._vectors.synchronised(repository.name, head, token=run.token)

    async def _catch_up(self, run: Run, repository: Path, since: str, until: str) -> None:
        for path, exists in await asyncio.to_thread(repositories.changed, repository, since, until):
            found = await self._read(repository, until, path) if exists else []
            for point in found:
                await asyncio.sleep(PACE)
                await self._vectors.put(point, run=run.key, token=run.token)
            await self._vectors.cut(repository.name, path, chunks=len(found), token=run.token)
            counted = run.counters
            run.report(files=counted.get("files", 0) + 1, points=counted.get("points", 0) + len(found))

    async def _read(self, repository: Path, commit: str, path: str) -> list[Point]:
        text = await asyncio.to_thread(repositories.text_of, repository, commit, path)
        return points_of(repository.name, path, text)


async def main() -> None:
    url = os.environ["DATABASE_URL"]
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:
        jobs = Jobs(PostgresLeases.from_url(url, namespace=NAMESPACE))
        synchroniser = Synchroniser(Path(os.environ["REPOSITORIES"]), Vectors(pool))
        # A lease of 5 s: a pod that was killed is noticed soon. With runs of minutes, leave it at 60.
        jobs.every(EVERY, name="sync", retry_abandoned=True, lease_ttl=5)(synchroniser.sync)
        async with jobs.lifespan():
            await pool.execute("INSERT INTO pods VALUES ($1)", os.environ["POD_NAME"])
            await ended.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(main())
