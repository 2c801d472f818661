from app import get_redis


class Prices:
    def key(self, day):
        return f"prices:{day}"

    def warm(self, day):
        redis = get_redis()
        key = self.key(day)
        if redis.exists(key):
            return
        redis.set(key, load(day), ex=60)

    def mark(self, day):
        redis = get_redis()
        key = f"seen:{day}"
        if redis.exists(key):
            return
        redis.set(key, day, ex=60)
        send(day)

    def forget(self, day):
        redis = get_redis()
        redis.delete(self.key(day))
