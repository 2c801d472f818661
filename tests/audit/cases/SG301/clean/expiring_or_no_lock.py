def acquire_lock(redis, key, token, ttl):
    return redis.set(key, token, nx=True, ex=ttl)


def set_if_absent(self, k, v, exp=3600):
    return bool(self.REDIS.set(k, v, exp, nx=True))


def secret_key(redis, name, value):
    if redis.setnx(name, value):
        return value
    return redis.get(name)


def verify_nonce(redis, nonce):
    return redis.set(f"nonce:{nonce}", 1, nx=True)
