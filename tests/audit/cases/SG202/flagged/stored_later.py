from app.cache import get_cached_report, set_cached_report


async def report(day, background_tasks):
    hit = await get_cached_report(day)
    if hit:
        return hit
    found = await build_report(day)
    background_tasks.add_task(set_cached_report, day, found)
    return found
