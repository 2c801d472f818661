from app import cache


def first[T](kind: type[T]) -> T:
    found = cache.get(kind.__name__)
    if found is None:
        found = load(kind)
        cache.set(kind.__name__, found)
    return found
