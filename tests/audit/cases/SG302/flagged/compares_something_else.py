from django.core.cache import cache


def refresh(account, session, rejected):
    lock_key = f"refresh_{account.id}"
    acquired = cache.add(lock_key, 1, timeout=60)
    try:
        rotated = session.get("token") != rejected
        if not rotated:
            account.rotate(session)
    finally:
        if acquired:
            cache.delete(lock_key)
