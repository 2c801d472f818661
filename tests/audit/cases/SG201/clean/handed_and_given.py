import asyncio
import json

from app.stores import redis_client


async def remember(day, tasks, found):
    hit = await asyncio.to_thread(redis_client.get, f"report:{day}")
    if hit:
        return json.loads(hit)
    tasks.add_task(redis_client.set, f"report:{day}", json.dumps(found), ex=60)
    return found


async def notify(day, tasks):
    rows = await build_report(day)
    tasks.add_task(send, rows)
    return rows
