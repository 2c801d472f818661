-- ARGV: a new version with its header, ms that a version must live at least.
local stored = redis.pcall('GET', KEYS[VALUE])
if type(stored) == 'string' and #stored == #ARGV[1] and value_header() then
  live_longer(KEYS[VALUE], tonumber(ARGV[2]))
  return stored
end
-- A first write that is always allowed. After it, a server that is out of memory lets the script finish.
redis.call('DEL', KEYS[VALUE])
redis.call('SET', KEYS[VALUE], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
