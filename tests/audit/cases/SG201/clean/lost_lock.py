from django.core.cache import cache


def regenerate(key, load):
    try:
        return under_lock(key, load)
    except LockError:
        found = cache.get(f"old.{key}")
        if found is None:
            found = load()
            cache.set(f"old.{key}", found)
        return found
