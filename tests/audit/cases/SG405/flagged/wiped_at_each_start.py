import redis_lock
from fastapi import FastAPI


async def setup_database():
    await database.connect()
    async with schema_lock():
        await migrate_schema()
    await database.execute("DELETE FROM active_connections")
    await database.execute("TRUNCATE TABLE metrics_cache")


class Cache:
    @classmethod
    def init_app(cls, app):
        cls.connect(app.config)
        cls.reset_locks()

    @classmethod
    def reset_locks(cls):
        redis_lock.reset_all(cls.backend)
