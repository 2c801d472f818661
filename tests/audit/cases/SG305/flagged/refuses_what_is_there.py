from app import get_redis


class Once:
    def key(self, message):
        return f"once:{message.actor}:{message.number}"

    def before(self, message):
        redis = get_redis()
        key = self.key(message)
        if redis.exists(key):
            raise Skipped(message.number)
        redis.set(key, message.number)
        redis.expire(key, 3600)

    def after(self, message):
        redis = get_redis()
        key = self.key(message)
        redis.delete(key)
