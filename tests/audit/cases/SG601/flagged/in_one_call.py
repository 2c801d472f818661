from app import cache



def report(user_id, language):
    return cache.get_or_set(f"report:{user_id}", lambda: build(user_id, language), 60)
