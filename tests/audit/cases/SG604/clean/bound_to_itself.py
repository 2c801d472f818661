from functools import lru_cache


@lru_cache
def grown(runner, steps):
    plan = base(steps)
    plan = plan.where(1)
    return runner.execute(plan)


@lru_cache
def in_a_ring(runner):
    first = second.of(1)
    second = first.of(2)
    return runner.execute(second)
