class Indexing:
    def begin(self, day):
        return bool(self.redis.set(f"ongoing_indexing|{day}", 1, ex=3600, nx=True))

    def end(self, day):
        self.redis.delete(f"ongoing_indexing|{day}")
