import json
import logging

from fakeredis import FakeAsyncRedis, FakeRedis

from tests.audit.computing import compute, compute_in_a_thread

redis = FakeAsyncRedis()
plain = FakeRedis()


class Kept:
    """A cache of objects."""

    def get(self, key: str) -> object:
        found = plain.get(key)
        return None if found is None else json.loads(found)

    def set(self, key: str, value: object, seconds: int) -> None:
        plain.set(key, json.dumps(value), ex=seconds)


cache = Kept()
log = logging.getLogger(__name__)


async def counted(day: int) -> int:
    cached = await redis.get(f"orders:{day}")
    if cached is not None:
        print("a hit")
        # the shop reads these bytes, too
        return int(cached)
    value = await compute()
    await redis.setex(f"orders:{day}", 60, value)
    return value


async def guarded(day: int) -> int:
    key = f"guarded:{day}"
    try:
        cached = await redis.get(key)
    except ConnectionError:
        cached = None
    if cached is not None:
        return int(cached)

    # for everybody
    value = await compute()
    await redis.setex(key, 60, value)
    log.info("stored")
    return value


async def forgotten(day: int) -> str:
    if (cached := await redis.get(f"day:{day}")) is not None:
        return json.loads(cached)
    value = str(await compute())
    await redis.setex(f"day:{day}", 60, json.dumps(value))
    return value


async def forget(day: int) -> None:
    await redis.delete(f"day:{day}")


async def as_long_as_told(day: int, seconds: int) -> int:
    cached = await redis.get(f"told:{day}")
    known = int(cached) if cached else None
    if known is not None:
        value = known
    else:
        value = await compute(day)
        if value:
            await redis.set(f"told:{day}", value, ex=seconds)
    return value


def pages(day: int) -> list[int]:
    orders = plain.get(f"page:orders:{day}")
    if not orders:
        try:
            orders = compute_in_a_thread(day)
        except OSError:
            return []
        plain.set(f"page:orders:{day}", orders, ex=60)
    returns = plain.get(f"page:returns:{day}")
    if not returns:
        returns = compute_in_a_thread(day)
        plain.set(f"page:returns:{day}", returns, ex=60)
    return [int(orders), int(returns)]


class Orders:
    def __init__(self, cache: FakeRedis) -> None:
        self.cache = cache

    def open(self, day: int) -> int:
        known = self.cache.get(f"open:{day}")
        if known is not None:
            return int(known)
        found = compute_in_a_thread(day)
        self.cache.set(f"open:{day}", found, 60)
        return found


orders = Orders(plain)


def in_many_steps(day: int) -> list[int]:
    numbers = plain.lrange(f"steps:{day}:all", 0, -1) if day < 0 else []
    cached = plain.get(f"steps:{day}")
    if cached is None:
        first = compute_in_a_thread(day)
        if first:
            numbers.append(first)
        if first > 1:
            numbers.append(1)
        if first > 2:
            numbers.append(2)
        if first > 3:
            numbers.append(3)
        numbers.sort()
        numbers.reverse()
        numbers = numbers[:2]
        plain.set(f"steps:{day}", json.dumps(numbers), ex=60)
    else:
        numbers = json.loads(cached)
    return numbers


def of_no_declared_type(day: int):
    known = plain.get(f"row:{day}")
    if known is not None:
        return int(known)
    made = compute_in_a_thread(day)
    plain.set(f"row:{day}", made, ex=60)
    return made


def totals(day: int) -> dict[str, int]:
    known = cache.get(f"totals:{day}")
    if not known:
        number = compute_in_a_thread(day)
        known = {} if day < 0 else {"total": number}
        cache.set(f"totals:{day}", known, 60)
    return known
