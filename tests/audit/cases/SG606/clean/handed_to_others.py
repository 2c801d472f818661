from shop.redis import connect
from shop.shards import choose, memory_of


def shard(query):
    key = hash(str(query))
    return choose(key)


def counted(redis, query):
    number = hash(str(query))
    return of_this_process(redis, number)


def of_this_process(redis, number):
    redis.get("limits")
    return SEEN.get(number)


def connected(query):
    number = hash(str(query))
    return connect(number)
