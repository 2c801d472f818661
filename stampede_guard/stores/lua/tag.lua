-- ARGV: a new version with its header, ms that a version has to live at least.
local stored = redis.pcall('GET', KEYS[VALUE])
if type(stored) == 'string' and #stored == #ARGV[1] and value_header() then
  live_longer(KEYS[VALUE], tonumber(ARGV[2]))
  return stored
end
-- A first write that nobody denies: after it, a server that is out of memory lets the script finish.
redis.call('DEL', KEYS[VALUE])
redis.call('SET', KEYS[VALUE], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
