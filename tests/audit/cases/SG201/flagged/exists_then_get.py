from app.redis import redis_client


def totals():
    if redis_client.exists("totals"):
        return redis_client.get("totals")
    value = sum_orders()
    redis_client.setex("totals", 60, value)
    return value
