import asyncio
import json

from app.stores import redis_client


async def report(day):
    hit = await asyncio.to_thread(redis_client.get, f"report:{day}")
    if hit:
        return json.loads(hit)
    found = await build_report(day)
    await asyncio.to_thread(redis_client.setex, f"report:{day}", 60, json.dumps(found))
    return found


async def summary(day, tasks):
    hit = await redis_client.get(f"summary:{day}")
    if hit:
        return json.loads(hit)
    found = await build_summary(day)
    tasks.add_task(redis_client.set, f"summary:{day}", json.dumps(found), ex=60)
    return found
