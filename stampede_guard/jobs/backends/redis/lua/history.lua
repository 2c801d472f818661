-- ARGV: how many, only slots before this one or '', '1' = accept incomplete sorted sets, outcomes (none = all).
-- Returns '1' if the sorted sets of the outcomes are incomplete: call `index.lua`, then this script again.
-- Else '0', and the newest runs.
local limit, highest = tonumber(ARGV[1]), ARGV[2] == '' and '+inf' or '(' .. ARGV[2]
local slots = {}
if #ARGV < 4 then
  slots = redis.call('ZREVRANGEBYSCORE', SLOTS, highest, '-inf', 'LIMIT', 0, limit)
else
  local known = redis.call('ZCARD', RUNNING)
  for _, key in pairs(ENDED) do
    known = known + redis.call('ZCARD', key)
  end
  if known ~= redis.call('ZCARD', SLOTS) and ARGV[3] ~= '1' then
    return {'1'}
  end
  for index = 4, #ARGV do
    local key = ARGV[index] == 'running' and RUNNING or ENDED[ARGV[index]]
    if key == RUNNING then
      -- This set is in the order of deadlines, so read all of it: running slots are few.
      for _, slot in ipairs(redis.call('ZRANGE', RUNNING, 0, 199)) do
        if ARGV[2] == '' or tonumber(slot) < tonumber(ARGV[2]) then
          slots[#slots + 1] = slot
        end
      end
    elseif key then
      for _, slot in ipairs(redis.call('ZREVRANGEBYSCORE', key, highest, '-inf', 'LIMIT', 0, limit)) do
        slots[#slots + 1] = slot
      end
    end
  end
  -- Sort negative numbers: so the newest comes first, and the sort needs no comparison function.
  for index, slot in ipairs(slots) do
    slots[index] = -tonumber(slot)
  end
  table.sort(slots)
  for index = 1, math.min(limit, #slots) do
    slots[index] = text(-slots[index])
  end
end
local found = {'0'}
for index, slot in ipairs(slots) do
  if index > limit then
    break
  end
  found[#found + 1] = redis.call('HGET', RUNS, slot)
end
return found
