-- KEYS: values of any number of entries. Writes nothing, so it also works when the server is out of memory.
-- MGET treats a key of another type as missing, and costs less than one GET per key.
local found = {}
for index, value in ipairs(redis.call('MGET', unpack(KEYS))) do
  found[2 * index - 1] = value
  found[2 * index] = value and redis.call('PTTL', KEYS[index]) or -2
end
return found
