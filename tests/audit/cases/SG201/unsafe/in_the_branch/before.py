import json
import logging

from fakeredis import FakeAsyncRedis

from tests.audit.computing import compute

redis = FakeAsyncRedis()
log = logging.getLogger(__name__)


async def report(db: object, project: int) -> dict[str, int]:
    found = await redis.get("report:" + str(project))
    if not found:
        log.info("computing %s", project)
        value = {"good": await compute(project)}
        payload = json.dumps(value)
        await redis.set("report:" + str(project), payload, ex=60)
        return value
    return json.loads(found)


async def total() -> int:
    if (known := await redis.get("total")) is not None:
        return int(known)
    number = await compute()
    await redis.set("total", number, px=90_000)
    return number


async def lines(project: int) -> str:
    text = await redis.get(f"lines:{project}")
    if text is None:
        # long
        text = str(await compute(project))
        await redis.set(f"lines:{project}", text)
    return text
