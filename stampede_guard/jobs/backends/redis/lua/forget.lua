local known = redis.call('EXISTS', JOB)
redis.call('UNLINK', unpack(KEYS))
return known
