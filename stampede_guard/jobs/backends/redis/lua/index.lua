-- During a deployment, workers of the previous version write runs without the sorted sets of the outcomes. This script
-- puts some runs where they belong. ARGV: the outcome whose set to walk ('' = the set of all slots), only slots before
-- this one or '', how many. Returns the slot before which the next call goes on, '' = that was the end.
local walked = ARGV[1] == '' and SLOTS or ENDED[ARGV[1]]
local highest, count = ARGV[2] == '' and '+inf' or '(' .. ARGV[2], tonumber(ARGV[3])
local slots = redis.call('ZREVRANGEBYSCORE', walked, highest, '-inf', 'LIMIT', 0, count)
for _, slot in ipairs(slots) do
  local stored = redis.call('HGET', RUNS, slot)
  if stored then
    index_run(slot, cjson.decode(stored).outcome)
  else
    drop_run(slot)
    redis.call('ZREM', RUNNING, slot)
  end
end
return #slots == count and slots[#slots] or ''
