class Importer:
    def start(self, feed):
        if self.redis.get(f"feed-state:{feed.id}"):
            logger.info("already there")
            return False
        self.redis.set(f"feed-state:{feed.id}", 1, ex=3600)
        queue.enqueue(self.run, feed)
        return True

    def finish(self, feed):
        self.redis.delete(f"feed-state:{feed.id}")
