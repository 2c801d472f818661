from dataclasses import dataclass
from datetime import date

from fakeredis import FakeAsyncRedis, FakeRedis
from stampede_guard import locked_cache

from tests.audit.computing import compute, compute_in_a_thread

redis = FakeAsyncRedis()
store = FakeRedis()


@dataclass
class Day:
    number: int


@locked_cache(ttl=60, key=lambda day, db: f"of-day:{day.number}")
async def of_day(day: Day, db: object = None) -> str:
    known = str(await compute(day.number))
    return known


class Ledger:
    async def total(self, day: int) -> str:
        return str(await compute(day))


@locked_cache(ttl=60, unkeyed=("ledger",))
async def booked(ledger: Ledger, day: int) -> str:
    found = await ledger.total(day)
    return found


@locked_cache(ttl=60, key=lambda: f"orders:{date.today()}")
async def today() -> int:
    value = await compute()
    return value


class Shop:
    def __init__(self, number: int) -> None:
        self.number = number
        self.cache = FakeAsyncRedis()

    @locked_cache(ttl=60, key=lambda self, day, net: "sales:%d:%d:%s" % (self.number, day, net))
    async def sales(self, day: int, *, net: bool = False) -> str:
        """Sales of a day."""
        found = str(await compute((self.number, day)))
        return found

    @locked_cache(ttl=60, key=lambda self: f"stock:{self.number}")
    async def stock(self) -> str:
        found = str(await compute(self.number))
        return found

    @property
    @locked_cache(ttl=60, key=lambda self: f"rating:{self.number}")
    def rating(self) -> int:
        found = compute_in_a_thread(self.number)
        return found

    @classmethod
    @locked_cache(ttl=60, key=lambda cls: "shop-names")
    async def names(cls) -> str:
        found = str(await compute())
        return found


shop = Shop(7)
