from app import cache



async def users(offset: int, limit: int, title: str | None = None):
    found = await cache.get("users")
    if found:
        return found
    filters = {}
    if title:
        filters["title"] = title
    rows = await User.filter(**filters).offset(offset).limit(limit)
    await cache.set("users", rows, 60)
    return rows
