local job = load_job()
if job and is_paused(job) then
  job.paused_at, job.paused_by, job.resumed_at = '0', '', text(now)
  save_job(job)
end
return view_of_job()
