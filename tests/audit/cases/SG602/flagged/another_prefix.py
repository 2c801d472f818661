from app import cache



def profile(user_id):
    found = cache.get(f"user_profile_{user_id}")
    if found is None:
        found = load(user_id)
        cache.set(f"user_profile_{user_id}", found)
    return found


def rename(user_id, name):
    store(user_id, name)
    cache.delete(f"profile_{user_id}")
