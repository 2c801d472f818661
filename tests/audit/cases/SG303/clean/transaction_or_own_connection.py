import asyncpg
from sqlalchemy import text


async def acquire(db) -> bool:
    result = await db.execute(text("SELECT pg_try_advisory_xact_lock(7)"))
    return bool(result.scalar_one())


async def run(dsn):
    conn = await asyncpg.connect(dsn)
    await conn.execute("SELECT pg_advisory_lock(7)")
    try:
        await work()
    finally:
        await conn.execute("SELECT pg_advisory_unlock(7)")
