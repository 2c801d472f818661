-- KEYS: as for every script. Writes nothing, so it also works on a server that refuses writes.
local record = redis.pcall('HMGET', KEYS[3], 'epoch', 'fence')
return record.err and {} or record
