search_cache = {}


async def search(text, agent):
    key = f"search-{text}"
    if key in search_cache:
        return search_cache[key]
    found = await ask(text, agent=agent)
    search_cache[key] = found
    return found
