from django.core.cache import cache

OPEN = "open"


def trip(name, redis):
    state = redis.get(f"breaker:{name}")
    if state == OPEN:
        return
    redis.set(f"breaker:{name}", OPEN, ex=30)


def cancel(job_id):
    if cache.get(f"job:{job_id}:status") == "cancelled":
        raise Gone(job_id)
    cache.set(f"job:{job_id}:status", "cancelled")


def enable(flag):
    if cache.get(f"flag:{flag}") == "on":
        return
    cache.set(f"flag:{flag}", "on")
