-- ARGV: how many ended ones to keep, older than (us)
local job, keep, oldest = load_job(), tonumber(ARGV[1]), (now - tonumber(ARGV[2])) / 1000
if not job then
  return 0
end
local ended, gone = 0, 0
for _, slot in ipairs(redis.call('ZREVRANGE', SLOTS, 0, -1)) do
  if not redis.call('ZSCORE', RUNNING, slot) then
    ended = ended + 1
    if ended > keep and tonumber(slot) < oldest then
      redis.call('HDEL', RUNS, slot)
      redis.call('ZREM', SLOTS, slot)
      redis.call('ZREM', AGAIN, slot)
      job.pruned_to = math.max(job.pruned_to, tonumber(slot))
      gone = gone + 1
    end
  end
end
if gone > 0 then
  save_job(job)
end
return gone
