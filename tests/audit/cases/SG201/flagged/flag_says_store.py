def certificate(cache, url):
    stored = cache.get(url)
    fresh = False
    if stored:
        key = parse(stored)
    else:
        fresh = True
        key = parse(download(url))
    check(key)
    if fresh:
        cache.set(url, key.public_bytes())
    return key
