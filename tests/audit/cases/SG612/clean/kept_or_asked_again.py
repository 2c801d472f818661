from functools import cache, lru_cache


@lru_cache
def of_the_module():
    return load()


def memoized(function):
    @lru_cache(maxsize=128)
    def inner(*args):
        return function(*args)

    return inner


def paths(graph, start):
    @cache
    def ways(node):
        return sum(ways(other) for other in graph[node]) or 1

    return ways(start)


def names(rows):
    @cache
    def name_of(number):
        return load(number)

    return [name_of(row.number) for row in rows]


def create_app():
    @lru_cache
    def config():
        return load()

    return App(config())
