class Lock:
    def __init__(self, client, key):
        self.client = client
        self.key = key

    def acquire(self):
        return self.client.set(self.key, "", nx=True) is True


def run(redis):
    if redis.setnx("lock:report", 1):
        work()


def refresh(memcache, key):
    flag = key + "/flag"
    if not memcache.add(flag, "true"):
        return
    try:
        work()
    finally:
        memcache.delete(flag)
