-- Marks at most 20 runs. A client that gets 20 calls again.
local job, marked = load_job(), {}
if not job then
  return marked
end
for _, slot in ipairs(redis.call('ZRANGEBYSCORE', RUNNING, '-inf', text(now), 'LIMIT', 0, 20)) do
  local run = load_run(tonumber(slot))
  if run and lapse(job, run) then
    save_run(run)
    marked[#marked + 1] = redis.call('HGET', RUNS, slot)
  end
end
if #marked > 0 then
  save_job(job)
end
return marked
