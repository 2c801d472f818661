-- ARGV: schedule, fingerprint, rhythm, version, '1' = a restart lost nothing
local job, version = load_job(), tonumber(ARGV[4])
if not job then
  job = {pruned_to = 0, last_slot = 0, last_success_at = 0, last_failure_at = 0, last_error = ''}
  job.registered_at, job.scheduled_at, job.version = now, now, version
  if ARGV[5] ~= '1' then
    -- Slots of before this server's life may have had their outcome, which it has forgotten.
    local uptime = tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))
    job.pruned_to = math.floor(now / 1000) - uptime * 1000
  end
elseif version < job.version then
  return view_of_job()
elseif job.fingerprint ~= ARGV[2] then
  job.scheduled_at = now
end
job.schedule, job.fingerprint, job.rhythm, job.version = ARGV[1], ARGV[2], ARGV[3], version
save_job(job)
return view_of_job()
