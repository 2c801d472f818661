import asyncio

from fastapi import FastAPI

from shop import db, pool

app = FastAPI()


@app.on_event("startup")
async def begin():
    rows = db.select("shops")
    async with pool.acquire():
        await db.ping(rows)
    asyncio.create_task(update_catalog())


async def update_catalog():
    while True:
        await db.execute("select leader_board from selected")
        await asyncio.sleep(60)
