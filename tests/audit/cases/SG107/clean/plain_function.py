from functools import lru_cache


@lru_cache
def settings(): ...
