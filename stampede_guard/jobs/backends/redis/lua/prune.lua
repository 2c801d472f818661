-- ARGV: how many ended runs to keep, minimum age to delete (us), the most to keep, how many of the oldest to pass over,
-- how many to read. Returns how many were deleted, how many were passed over because they run, 1 = there may be more.
local job, keep, oldest = load_job(), tonumber(ARGV[1]), (now - tonumber(ARGV[2])) / 1000
local most, offset, count = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if not job then
  return {0, 0, 0}
end
local left = redis.call('ZCARD', SLOTS) - redis.call('ZCARD', RUNNING)
local slots, gone, passed, more = redis.call('ZRANGE', SLOTS, offset, offset + count - 1), 0, 0, 1
for _, slot in ipairs(slots) do
  if redis.call('ZSCORE', RUNNING, slot) then
    passed = passed + 1
  elseif left > most or (left > keep and tonumber(slot) < oldest) then
    drop_run(slot)
    job.pruned_to = math.max(job.pruned_to, tonumber(slot))
    gone, left = gone + 1, left - 1
  else
    more = 0
    break
  end
end
if gone > 0 then
  save_job(job)
end
return {gone, passed, #slots == count and more or 0}
