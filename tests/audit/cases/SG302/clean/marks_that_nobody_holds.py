class Views:
    def first(self, user):
        return bool(self.redis.set(f"viewed:{user}", 1, nx=True, ex=86400))

    def account_deleted(self, user):
        self.redis.delete(f"viewed:{user}")


class Hits:
    def count(self, user):
        self.redis.set(f"hits:{user}", 0, nx=True, ex=3600)
        return self.redis.incr(f"hits:{user}")

    def session_ended(self, user):
        self.redis.delete(f"hits:{user}")


class Requests:
    def begin(self, key):
        return self.redis.set(key, "pending", nx=True, ex=3600)

    def finish(self, key):
        self.redis.delete(key)
