async def next_page(redis, api):
    cursor = await redis.get("feed:cursor")
    params = {"limit": 100}
    if cursor:
        params["cursor"] = cursor
    page = await api.search(params)
    await redis.set("feed:cursor", page.next_cursor)
    return page.rows
