from app import cache


def move(old, new):
    state = cache.get(f"source:{old}")
    if state is None:
        cache.set(f"target-of-move:{new}", build(new))
    return state
