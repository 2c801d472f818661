-- KEYS: values of any number of entries. Writes nothing, so it also works when the server is out of memory.
local found = {}
for index, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' then
    value = false
  end
  found[2 * index - 1] = value
  found[2 * index] = value and redis.call('PTTL', key) or -2
end
return found
