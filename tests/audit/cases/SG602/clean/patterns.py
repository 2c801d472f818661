from django.core.cache import cache
from redis.asyncio import Redis

from app.store import store


async def forget_pages(redis: Redis) -> None:
    async for key in redis.scan_iter("page:*"):
        await redis.delete(key)


def forget_user(user_id: int) -> None:
    cache.delete_pattern(f"user:{user_id}:*")


async def forget_orders() -> None:
    """A class of the project may understand patterns."""
    await store.delete("orders:*")
