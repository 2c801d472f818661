from django.core.cache import cache


async def report(day):
    match await cache.aget(f"report:{day}"):
        case None:
            found = await build_report(day)
            await cache.aset(f"report:{day}", found, 60)
            return found
        case hit:
            return hit
