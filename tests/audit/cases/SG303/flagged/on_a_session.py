from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession


async def acquire(db: AsyncSession) -> bool:
    query = text("SELECT pg_try_advisory_lock(hashtext('sync'))")
    result = await db.execute(query)
    return bool(result.scalar_one())
