def release_lock(redis, key):
    redis.delete(f"lock:{key}")


def work(redis):
    if redis.set("report-lock", "1", nx=True, ex=30):
        try:
            build()
        finally:
            redis.delete("report-lock")
