import json


class RedisWrapper:
    @classmethod
    def cache_it(cls, key, f, expire=60):
        def with_cache(*args, **kwargs):
            stored = cls._get_value(key)
            if stored is not None:
                return json.loads(stored)
            result = f(*args, **kwargs)
            cls._set_value(key, json.dumps(result), expire)
            return result

        return with_cache
