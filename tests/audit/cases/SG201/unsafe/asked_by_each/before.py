from fakeredis import FakeRedis

from tests.audit.computing import asked, compute_in_a_thread

redis = FakeRedis()
users = {7: "a"}


def before_the_get(day: int) -> int:
    user = asked(day)
    known = redis.get(f"day:{day}")
    if known is not None:
        return int(known)
    value = compute_in_a_thread(day)
    redis.set(f"day:{day}", value, ex=60)
    return value


def day_key(day: int) -> str:
    return f"by-key:{day}"


def by_a_key(day: int):
    known = redis.get(day_key(day))
    if known is not None:
        return int(known)
    value = compute_in_a_thread(day)
    redis.set(day_key(day), value, ex=60)
    return value


def of_known_users(day: int) -> int:
    user = users[day]
    known = redis.get(f"known:{day}")
    if known is not None:
        return int(known)
    value = compute_in_a_thread(day)
    redis.set(f"known:{day}", value, ex=60)
    return value
