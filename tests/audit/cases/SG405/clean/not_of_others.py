from fastapi import FastAPI


async def setup_database():
    await database.connect()
    await database.execute("DELETE FROM connections WHERE seen < now() - interval '1 day'")
    async with start_lock():
        await database.execute("DELETE FROM metrics_cache")


def import_cards():
    db().execute("DELETE FROM cards")


def init_app(app):
    if not is_primary():
        return
    reset_locks(app)


def init_counters():
    counters.reset()
