from fakeredis import FakeRedis

redis = FakeRedis()


def enter(name: str) -> bool:
    return bool(
        redis.set(
            f"lock:{name}",
            "me",  # whoever that is
            nx=True, ex=60,
        )
    )


def enter_too(name: str) -> bool:
    return bool(redis.set(f"lock:{name}", "me", nx=True, ex=60))
