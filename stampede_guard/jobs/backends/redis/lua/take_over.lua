-- ARGV: see `put_schedule`
local job = load_job()
if not job or job.fingerprint == ARGV[2] or job.seen_for == 0 or now < job.seen_at + job.seen_for then
  return 0
end
job.scheduled_at, job.seen_at, job.seen_for = job.seen_at, now, tonumber(ARGV[5])
put_schedule(job)
save_job(job)
return 1
