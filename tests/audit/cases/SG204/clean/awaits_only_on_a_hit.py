_page_cache = {}


async def page(socket, key):
    known = _page_cache.get(key)
    if known is not None:
        await socket.send(known)
        return known
    made = render(key)
    _page_cache[key] = made
    return made
