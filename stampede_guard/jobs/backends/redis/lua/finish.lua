-- ARGV: slot, run, outcome, error, token, counters
local job, run = load_job(), load_run(tonumber(ARGV[1]))
if not job or not ours(run, ARGV[2]) then
  return 0
end
run.outcome, run.finished_at, run.error, run.counters = ARGV[3], now, ARGV[4], ARGV[6]
run.token = math.max(run.token, tonumber(ARGV[5]))
save_run(run)
if ARGV[3] == 'completed' then
  job.last_success_at = now
  job.last_success_began = math.max(job.last_success_began, run.started_at)
elseif ARGV[3] == 'failed' or ARGV[3] == 'abandoned' then
  job.last_failure_at, job.last_error = now, ARGV[4]
end
save_job(job)
return 1
