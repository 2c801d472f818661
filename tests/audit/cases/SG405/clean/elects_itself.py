from contextlib import asynccontextmanager

from fastapi import FastAPI


async def init_db(connection):
    await connection.execute("SELECT pg_advisory_xact_lock(17)")
    await connection.execute("CREATE TABLE IF NOT EXISTS orders (id int)")


@asynccontextmanager
async def lifespan(app: FastAPI):
    await init_db(app.state.connection)
    yield
