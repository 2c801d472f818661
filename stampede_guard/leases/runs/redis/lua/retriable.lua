-- ARGV: attempts, how many
local found = {}
for _, slot in ipairs(redis.call('ZRANGE', AGAIN, 0, -1)) do
  local stored = #found < tonumber(ARGV[2]) and redis.call('HGET', RUNS, slot)
  if not stored then
    break
  end
  if tonumber(cjson.decode(stored).attempt) < tonumber(ARGV[1]) then
    found[#found + 1] = stored
  end
end
return found
