from app.stores import redis_connection


class Source:
    def cached_schema(self):
        return redis_connection.get(self._schema_key)

    def schema(self):
        known = self.cached_schema()
        if known is None:
            known = self.runner.read_schema()
            redis_connection.set(self._schema_key, known, ex=60)
        return known
