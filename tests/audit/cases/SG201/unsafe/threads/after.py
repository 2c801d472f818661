from fakeredis import FakeRedis
from stampede_guard import locked_cache

from tests.audit.computing import compute_in_a_thread

redis = FakeRedis()


@locked_cache(ttl=60)
def count(day: int) -> int:
    number = compute_in_a_thread(day)
    return number
