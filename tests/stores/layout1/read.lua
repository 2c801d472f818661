-- KEYS: values of any number of entries. Writes nothing, so it also works when the server is out of memory.
-- MGET takes what is no string for missing, and costs less than a GET for each.
local found = {}
for index, value in ipairs(redis.call('MGET', unpack(KEYS))) do
  found[2 * index - 1] = value
  found[2 * index] = value and redis.call('PTTL', KEYS[index]) or -2
end
return found
