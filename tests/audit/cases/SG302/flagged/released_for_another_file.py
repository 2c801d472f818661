from shop.redis_client import get_redis_client


def _release_date_lock(day):
    try:
        client = get_redis_client()
        lock_key = f"shop:dates:{day}"
        client.delete(lock_key)
    except OSError:
        pass
