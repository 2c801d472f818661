from pages import engine
from shop.redis import cached_result


def count_of(redis, told, key):
    wanted = f"count:{key}"
    found = redis.get(wanted)
    return found if found is not None else told()


async def search(query, request):
    cache_key = f"search:{hash(query.model_dump_json())}"
    return await cached_result(lambda: engine.search(query), cache_key, request)


def counted(redis, query):
    number = hash(str(query))
    return count_of(redis, lambda: engine.count(query), number)
