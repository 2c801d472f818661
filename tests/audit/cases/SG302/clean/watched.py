def enqueue(redis, job):
    pipe = redis.pipeline()
    pipe.watch(f"lock:{job}")
    if is_finished(pipe.get(f"lock:{job}")):
        redis.delete(f"lock:{job}")
    pipe.multi()
    pipe.setnx(f"lock:{job}", job)
    pipe.execute()
