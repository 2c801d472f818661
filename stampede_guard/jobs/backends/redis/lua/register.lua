-- ARGV: see `put_schedule`; 6 '1' = a restart loses nothing
local job = load_job()
if not job then
  -- A program has few jobs.
  allow_writes()
  job = {pruned_to = 0, last_slot = 0, last_success_at = 0, last_success_began = 0, last_failure_at = 0, last_error = ''}
  job.registered_at, job.scheduled_at, job.seen_at, job.seen_for = now, now, now, 0
  put_schedule(job)
  if ARGV[6] ~= '1' then
    -- Slots from before the server's start may have had an outcome that the restart lost.
    local uptime = tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))
    job.pruned_to = math.floor(now / 1000) - uptime * 1000
  end
elseif tonumber(ARGV[4]) >= job.version then
  put_anew(job)
end
seen(job)
save_job(job)
return view_of_job()
