-- ARGV: how many, only slots before this one or '', outcomes (none = all)
local wanted, limit = {}, tonumber(ARGV[1])
for index = 3, #ARGV do
  wanted[ARGV[index]] = true
end
local highest, found = ARGV[2] == '' and '+inf' or '(' .. ARGV[2], {}
while #found < limit do
  local slots = redis.call('ZREVRANGEBYSCORE', SLOTS, highest, '-inf', 'LIMIT', 0, 200)
  if #slots == 0 then
    break
  end
  for _, stored in ipairs(redis.call('HMGET', RUNS, unpack(slots))) do
    if stored and #found < limit and (#ARGV < 3 or wanted[cjson.decode(stored).outcome]) then
      found[#found + 1] = stored
    end
  end
  highest = '(' .. slots[#slots]
end
return found
