from app import cache



def key_of(user, page):
    return f"orders:{user.id}:{page}"


def orders(user, page):
    key = key_of(user, page)
    found = cache.get(key)
    if found is None:
        found = load(user, page)
        cache.set(key, found, 60)
    return found
