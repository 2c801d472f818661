from app import cache



PREFIX = "user:"


def key_of(user_id):
    return PREFIX + str(user_id)


def user(user_id):
    found = cache.get(key_of(user_id))
    if found is None:
        found = load(user_id)
        cache.set(key_of(user_id), found)
    return found


def renamed(user_id):
    cache.delete(f"user:{user_id}")
    cache.delete(f"orders:{user_id}")
