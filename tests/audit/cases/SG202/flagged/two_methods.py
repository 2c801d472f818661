class Memo:
    def __call__(self, *args):
        found = self.memcache_get(args)
        if found is None:
            found = self.update(*args)
        return found

    def update(self, *args):
        value = self.function(*args)
        self.memcache_set(args, value)
        return value
