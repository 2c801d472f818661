"""A computation that read before a commit, with the reader and the writer on guards of their own."""

from __future__ import annotations

import asyncio

from sqlalchemy import Engine, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from stampede_guard import StampedeGuard
from stampede_guard.integrations.sqlalchemy import invalidate_on_commit
from tests.integrations.sqlalchemy.models import Project
from tests.support.gate import Gate, soon
from tests.support.sessions import patient


async def test_what_was_read_before_a_commit_is_served_to_nobody_who_asks_after_it(
    tables: Engine, valkey_url: str, namespace: str
) -> None:
    engine = create_async_engine(tables.url.set(drivername="postgresql+asyncpg"))
    reader, writer, visitor = (
        StampedeGuard.from_url(patient(valkey_url), namespace=namespace) for _ in range(3)
    )
    plain, sessions = async_sessionmaker(engine), async_sessionmaker(engine)
    invalidate_on_commit(sessions, writer, {Project: ("project:{id}",)})
    gates = {False: Gate(), True: Gate()}
    changed = False

    async def name(project: int) -> str | None:
        async with plain() as session:
            found = await session.scalar(select(Project.name).where(Project.id == project))
        await gates[changed].hold()
        return found

    read = [guard.locked_cache(ttl=300, tags=("project:{project}",))(name) for guard in (reader, visitor)]
    async with sessions.begin() as session:
        session.add(Project(id=1, name="old"))

    early = asyncio.create_task(read[0](1))
    await gates[False].arrival()  # it has read
    async with sessions.begin() as session:
        (await session.get_one(Project, 1)).name = "new"
    changed = True
    late = [asyncio.create_task(cached(1)) for cached in read]
    gates[True].open()
    gates[False].open()
    assert await soon(early) in ("old", "new"), "it asked before the commit"
    assert await soon(asyncio.gather(*late)) == ["new", "new"]
    assert [await cached(1) for cached in read] == ["new", "new"]
    for guard in (reader, writer, visitor):
        await guard.aclose()
    await engine.dispose()
