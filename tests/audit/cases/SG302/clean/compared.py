SCRIPT = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end"


def release_lock(redis, key, token):
    return redis.eval(SCRIPT, 1, key, token)


def unlock(redis, lock_key, token):
    if redis.get(lock_key) == token:
        redis.delete(lock_key)


def forget_login(cache, user):
    cache.delete(f"login-lockout:{user}")
