"""Three pods keep the files of some git repositories in a vector store; one is killed in the middle of its work.

    python -m examples.repo_sync

Needs git, and nothing that runs already: PostgreSQL is started from its wheel (`pip install -e '.[test]'`). It
tells what happens, prints the history of the job, and what the store has in the end. Takes less than a minute. Exit
status 1 if anything is there twice, is missing, or ran twice for one tick.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg

from bench.herd import processes
from bench.herd.postgres import PostgresServer
from examples.repo_sync import repositories
from examples.repo_sync.pod import EVERY, NAMESPACE
from examples.repo_sync.vectors import SCHEMA, Vectors, points_of
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.messages import RunView
from stampede_guard.jobs.schedules.schedule import moment
from stampede_guard.leases import PostgresLeases

ROOT = Path(__file__).resolve().parents[2]
PODS = ("pod-1", "pod-2", "pod-3")
PATIENCE = 120.0


class Story:
    def __init__(self, home: Path, database: str, pool: asyncpg.Pool, jobs: Jobs) -> None:
        self._home = home
        self._database = database
        self._pool = pool
        self._jobs = jobs
        self._vectors = Vectors(pool)
        self._pods: dict[str, processes.Child] = {}
        self._root = home / "repositories"

    async def play(self) -> bool:
        """Whether everything was as it is to be."""
        shop = repositories.make(self._root, "shop", files=6, seed=1)
        repositories.make(self._root, "wiki", files=4, seed=2)
        await self._pool.execute(SCHEMA + "CREATE TABLE pods (name text PRIMARY KEY)")
        for name in PODS:
            self._start(name)
        await self._until(self._all_stand, "all pods stand")
        await self._until(self._in_step, "the first synchronisation")
        tell(f"{len(PODS)} pods stand; the store has what is in 2 repositories")
        repositories.commit_files(shop, ["docs/page_1.md"], seed=3, delete="docs/page_0.md")
        await self._until(self._in_step, "a small commit")
        tell("one file was changed and one deleted: only these were synchronised")
        repositories.commit_files(shop, [f"src/module_{number}.py" for number in range(24)], seed=4)
        slot, pod = await self._kill_whoever_works()
        tell(f"24 files are new; {pod} was killed while it synchronised them")
        await self._until(lambda: self._ended(slot), "another pod takes the run over")
        await self._until(self._in_step, "the rest")
        tell("its run was taken over, and the store has all of them")
        for child in self._pods.values():
            child.stop()
        return await self._shown(slot)

    def _start(self, name: str) -> None:
        environment = {
            **os.environ, "DATABASE_URL": self._database, "REPOSITORIES": str(self._root), "POD_NAME": name,
        }  # fmt: skip
        command = [sys.executable, "-m", "examples.repo_sync.pod"]
        self._pods[name] = processes.start(command, cwd=ROOT, env=environment, log=self._home / f"{name}.log")

    async def _until(self, what: Callable[[], Awaitable[bool]], called: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not await what():  # noqa: ASYNC110 - other processes do it
                    await asyncio.sleep(0.1)
        except TimeoutError:
            words = "\n".join(f"{name}:\n{pod.last_words()}" for name, pod in self._pods.items())
            raise RuntimeError(f"waited {PATIENCE:g} s for: {called}\n{words}") from None

    async def _all_stand(self) -> bool:
        return await self._pool.fetchval("SELECT count(*) FROM pods") == len(PODS)  # type: ignore[no-any-return]

    def _wanted(self) -> Counter[tuple[str, str, int, str]]:
        """The points that the store is to have, as git has the files."""
        found: Counter[tuple[str, str, int, str]] = Counter()
        for repository in repositories.repositories(self._root):
            head = repositories.head(repository)
            for path, _ in repositories.changed(repository, repositories.NOTHING, head):
                text = repositories.text_of(repository, head, path)
                for point in points_of(repository.name, path, text):
                    found[(point.repository, point.path, point.chunk, point.digest)] += 1
        return found

    async def _in_step(self) -> bool:
        for repository in repositories.repositories(self._root):
            if await self._vectors.commit_of(repository.name) != repositories.head(repository):
                return False
        return True

    async def _kill_whoever_works(self) -> tuple[int, str]:
        """The slot of the run, and the name of the pod, that is in the middle of it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for run in await self._jobs.history("sync", outcomes=("running",)):
                    assert run.owner is not None
                    key = f"{NAMESPACE}:sync@{time_of(run)}"
                    if await self._vectors.written_by(key) > 3:
                        self._pods.pop(run.owner.pod).kill()
                        return run.slot, run.owner.pod
                await asyncio.sleep(0.05)

    async def _ended(self, slot: int) -> bool:
        runs = await self._jobs.history("sync", outcomes=("completed", "failed"))
        return any(run.slot == slot and run.attempt > 1 for run in runs)

    async def _shown(self, killed: int) -> bool:
        history = (await self._jobs.history("sync", limit=1_000))[::-1]
        print("\n slot      outcome    attempt  pod    seconds  files  points")
        for run in history:
            print(row(run))
        slots = [run.slot for run in history if run.outcome != "running"]
        once = slots == list(range(slots[0], slots[-1] + 1, EVERY * 1000)) and len(slots) == len(history)
        taken_over = any(run.slot == killed and run.attempt > 1 for run in history)
        wanted, points = self._wanted(), Counter(await self._vectors.contents())
        asked = repositories.text_of(self._root / "shop", "HEAD", "src/module_7.py")[-500:]
        print(f"\n{len(slots)} ticks, each with one outcome: {once}; taken over: {taken_over}")
        print(
            f"{points.total()} points, {(points - wanted).total()} twice, {(wanted - points).total()} missing"
        )
        print(f"the file most like the end of src/module_7.py: {await self._vectors.nearest(asked)}")
        return once and taken_over and points == wanted


def time_of(run: RunView) -> str:
    return moment(run.slot).isoformat()


def row(run: RunView) -> str:
    seconds = f"{run.finished_at - run.started_at:7.1f}" if run.started_at and run.finished_at else " " * 7
    counted = [f"{run.counters.get(name, 0):6}" for name in ("files", "points")]
    pod = run.owner.pod if run.owner else "-"
    return f" {time_of(run)[11:19]}  {run.outcome:9}  {run.attempt:7}  {pod:5}  {seconds} {' '.join(counted)}"


def tell(what: str) -> None:
    print(what, flush=True)


async def main() -> bool:
    with PostgresServer() as postgres:
        home = processes.temporary_directory("repo-sync-")
        async with (
            asyncpg.create_pool(postgres.url, min_size=1, max_size=2) as pool,
            PostgresLeases.from_url(postgres.url, namespace=NAMESPACE) as leases,
        ):
            await leases.create_schema()
            return await Story(home, postgres.url, pool, Jobs(leases)).play()


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main()) else 1)
