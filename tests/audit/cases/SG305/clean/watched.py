def enqueue(redis, job):
    pipe = redis.pipeline()
    pipe.watch(f"lock:{job}")
    holder = pipe.get(f"lock:{job}")
    if not holder:
        pipe.multi()
        pipe.set(f"lock:{job}", job, 60)
        pipe.execute()
