import logging

from fakeredis import FakeAsyncRedis
from stampede_guard import locked_cache

from tests.audit.computing import compute

redis = FakeAsyncRedis()
log = logging.getLogger(__name__)


@locked_cache(ttl=60, unkeyed=("db",))
async def report(db: object, project: int) -> dict[str, int]:
    log.info("computing %s", project)
    value = {"good": await compute(project)}
    return value


@locked_cache(ttl=90)
async def total() -> int:
    number = await compute()
    return number


@locked_cache(ttl=300)
async def lines(project: int) -> str:
    # long
    text = str(await compute(project))
    return text
