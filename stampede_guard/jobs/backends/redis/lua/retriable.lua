-- ARGV: attempts, how many, how many of the oldest to pass over, how many to read.
-- Returns how many were read, then the runs.
local found, offset = {}, tonumber(ARGV[3])
local slots = redis.call('ZRANGE', AGAIN, offset, offset + tonumber(ARGV[4]) - 1)
for _, slot in ipairs(slots) do
  local stored = #found < tonumber(ARGV[2]) and redis.call('HGET', RUNS, slot)
  if stored and tonumber(cjson.decode(stored).attempt) < tonumber(ARGV[1]) then
    found[#found + 1] = stored
  end
end
return {#slots, unpack(found)}
