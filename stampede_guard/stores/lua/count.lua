-- Adds numbers to one slot of a series. KEYS: a hash. ARGV: seconds of a slot, the slot, its lifetime in milliseconds,
-- the most fields of a slot, then fields and numbers. Returns the server's slot. If that is another one than the caller
-- thinks, nothing was added.
local slot = math.floor(now_us() / 1000000 / tonumber(ARGV[1]))
if math.abs(slot - tonumber(ARGV[2])) > 1 then
  return slot
end
fields(KEYS[1], '')  -- a key of the wrong type is deleted
local room = tonumber(ARGV[4]) - redis.call('HLEN', KEYS[1])
-- In parts: Lua unpacks some thousands of values at most.
for first = 5, #ARGV, 1000 do
  local names, sums = {}, {}
  for index = first, math.min(first + 998, #ARGV - 1), 2 do
    names[#names + 1] = ARGV[index]
  end
  local stored = fields(KEYS[1], unpack(names))
  for place, name in ipairs(names) do
    if not stored[place] then
      room = room - 1
    end
    if stored[place] or room >= 0 then
      sums[#sums + 1] = name
      sums[#sums + 1] = text((tonumber(stored[place] or 0) or 0) + tonumber(ARGV[first + 2 * place - 1]))
    end
  end
  if #sums > 0 then
    redis.call('HSET', KEYS[1], unpack(sums))
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return slot
