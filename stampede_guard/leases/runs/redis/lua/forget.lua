local known = redis.call('EXISTS', JOB)
redis.call('DEL', JOB, RUNS, SLOTS, RUNNING, AGAIN)
return known
