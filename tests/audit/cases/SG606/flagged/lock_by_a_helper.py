async def aggregate(session, job):
    from shop.locks import try_advisory_lock

    lock_id = abs(hash(str(job.id))) % (2**31)
    if not await try_advisory_lock(session, lock_id):
        return
    await sum_up(session, job)


def sold(redis, name):
    with distributed_lock(f"sold:{hash(name)}"):
        redis.setex("sold", 60, count(name))
