from app import local_cache, redis


async def profile(user):
    near = local_cache.get(user)
    if near is not None:
        return near
    far = await redis.get(user)
    if far is not None:
        local_cache.set(user, far)
    return far
