from functools import lru_cache


@lru_cache
def rows():
    def each():
        yield from query()

    return list(each())


@lru_cache
@as_list
def names():
    yield from query()
