def count(key, query, expire=None):
    result = redis.get(key)
    if result is None:
        redis.set(key, (result := int(query.count())))
        if expire:
            redis.expire(key, expire)
    return int(result)
