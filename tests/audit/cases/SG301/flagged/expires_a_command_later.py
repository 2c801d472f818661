def take(redis, name):
    if redis.setnx(f"lock:{name}", "1"):
        redis.expire(f"lock:{name}", 30)
        return True
    return False
