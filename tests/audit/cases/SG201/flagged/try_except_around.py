import json
import redis.asyncio as aioredis

client = aioredis.from_url("redis://localhost")


async def stats(team):
    key = f"stats:{team}"
    try:
        raw = await client.get(key)
        if raw:
            return json.loads(raw)
    except Exception:
        pass
    value = await query(team)
    try:
        await client.set(key, json.dumps(value), ex=60)
    except Exception:
        pass
    return value
