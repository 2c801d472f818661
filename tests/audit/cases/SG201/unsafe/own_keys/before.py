from dataclasses import dataclass
from datetime import date

from fakeredis import FakeAsyncRedis, FakeRedis

from tests.audit.computing import compute, compute_in_a_thread

redis = FakeAsyncRedis()
store = FakeRedis()


@dataclass
class Day:
    number: int


async def of_day(day: Day, db: object = None) -> str:
    key = f"of-day:{day.number}"
    known = await redis.get(key)
    if known is None:
        known = str(await compute(day.number))
        await redis.set(key, known, ex=60)
    return known


class Ledger:
    async def total(self, day: int) -> str:
        return str(await compute(day))


async def booked(ledger: Ledger, day: int) -> str:
    known = await redis.get(f"booked:{day}")
    if known is not None:
        return known.decode()
    found = await ledger.total(day)
    await redis.set(f"booked:{day}", found, ex=60)
    return found


async def today() -> int:
    key = f"orders:{date.today()}"
    cached = await redis.get(key)
    if cached is not None:
        return int(cached)
    value = await compute()
    await redis.setex(key, 60, value)
    return value


class Shop:
    def __init__(self, number: int) -> None:
        self.number = number
        self.cache = FakeAsyncRedis()

    async def sales(self, day: int, *, net: bool = False) -> str:
        """Sales of a day."""
        known = await redis.get("sales:%d:%d:%s" % (self.number, day, net))
        if known is not None:
            return known.decode()
        found = str(await compute((self.number, day)))
        await redis.set("sales:%d:%d:%s" % (self.number, day, net), found, ex=60)
        return found

    async def stock(self) -> str:
        known = await self.cache.get(f"stock:{self.number}")
        if known is not None:
            return known.decode()
        found = str(await compute(self.number))
        await self.cache.set(f"stock:{self.number}", found, ex=60)
        return found

    @property
    def rating(self) -> int:
        known = store.get(f"rating:{self.number}")
        if known is not None:
            return int(known)
        found = compute_in_a_thread(self.number)
        store.set(f"rating:{self.number}", found, ex=60)
        return found

    @classmethod
    async def names(cls) -> str:
        known = await redis.get("shop-names")
        if known is not None:
            return known.decode()
        found = str(await compute())
        await redis.set("shop-names", found, ex=60)
        return found


shop = Shop(7)
