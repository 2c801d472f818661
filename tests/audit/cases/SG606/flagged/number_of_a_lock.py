from sqlalchemy import text


def lock(session, name: str):
    number = hash(name) % 2**31
    session.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def locked(redis, name: str):
    return redis.lock(f"lock:{hash(name)}", timeout=10)
