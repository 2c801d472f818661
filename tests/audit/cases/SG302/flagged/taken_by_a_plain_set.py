def _job_lock(query):
    return f"job:{query}"


def _unlock(query):
    redis.delete(_job_lock(query))


def enqueue(query):
    pipe = redis.pipeline()
    pipe.watch(_job_lock(query))
    pipe.multi()
    pipe.set(_job_lock(query), start(query), 3600)
    pipe.execute()
