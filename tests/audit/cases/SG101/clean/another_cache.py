from functools import cache


@cache
def settings(): ...
