from django.core.cache import cache
from redis.asyncio import Redis


async def forget_pages(redis: Redis) -> None:
    await redis.delete("page:*")


def forget_user(user_id: int) -> None:
    cache.delete(f"user:{user_id}:*")
