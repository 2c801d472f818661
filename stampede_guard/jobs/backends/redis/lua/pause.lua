-- ARGV: who pauses it
local job = load_job()
if job and not is_paused(job) then
  job.paused_at, job.paused_by = text(now), ARGV[1]
  save_job(job)
end
return view_of_job()
