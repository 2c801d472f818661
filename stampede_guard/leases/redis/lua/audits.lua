return redis.call('LRANGE', AUDITS, 0, -1)
