from fakeredis import FakeRedis

from tests.audit.computing import compute_in_a_thread

redis = FakeRedis()


def count(day: int) -> int:
    known = redis.get(f"count:{day}")
    if known is not None:
        return int(known)
    number = compute_in_a_thread(day)
    redis.set(f"count:{day}", number, ex=60)
    return number
