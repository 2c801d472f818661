-- ARGV: outcome, error, slots
local job, recorded = load_job(), 0
if not job then
  return 0
end
for index = 3, #ARGV do
  local slot = tonumber(ARGV[index])
  if now >= slot * 1000 and slot > job.pruned_to and not load_run(slot) then
    save_run({
      slot = slot, run = '', outcome = ARGV[1], attempt = 0, attempts = 0, alive_until = 0, started_at = 0, owner = '',
      token = 0, finished_at = now, error = ARGV[2], counters = '{}',
    })
    job.last_slot = math.max(job.last_slot, slot)
    recorded = recorded + 1
  end
end
if recorded > 0 then
  trim(job)
  save_job(job)
end
return recorded
