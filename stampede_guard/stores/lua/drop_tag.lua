-- A tag without a version has changed for everybody. A deletion is never denied for want of memory.
return redis.call('DEL', KEYS[VALUE])
