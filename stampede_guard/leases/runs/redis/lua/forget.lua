local known = redis.call('EXISTS', JOB)
redis.call('DEL', JOB, RUNS, SLOTS, RUNNING)
return known
