async def kind_of(http, url):
    known = await cache.get(url)
    if known:
        return known
    kind = Kind.FILE
    async with http.get(url) as answer:
        headers = answer.headers
    if headers.get("metaint"):
        kind = Kind.STREAM
    result = (url, kind)
    await cache.set(url, result, 3600)
    return result
