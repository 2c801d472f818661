class Throttle:
    def allow(self, key):
        self.history = self.cache.get(key, [])
        while self.history and self.history[-1] < now():
            self.history.pop()
        if len(self.history) > 5:
            return False
        return self.accept(key)

    def accept(self, key):
        self.history.insert(0, now())
        self.cache.set(key, tail(self.history), 60)
        return True
