async def report(rows, load):
    cache = {}

    async def name_of(key):
        if key not in cache:
            cache[key] = await load(key)
        return cache[key]

    return [await name_of(row.key) for row in rows]
