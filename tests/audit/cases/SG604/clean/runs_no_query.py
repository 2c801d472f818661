from functools import cache, lru_cache

from app import executor, machine, steps


@lru_cache
def planned(name):
    return executor.execute(steps[name])


@cache
def selected(name):
    return machine.execute("selection", name)


@cache
def parsed(text):
    statement = statement_of(text)
    return statement
