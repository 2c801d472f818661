-- ARGV: slot, run, fingerprint, owner, alive for (us), attempts, '1' = by hand
local slot, mine, alive_until = tonumber(ARGV[1]), ARGV[2], now + tonumber(ARGV[5])
local job = load_job()
if not job then
  return {'outdated', ''}
end
if job.fingerprint ~= ARGV[3] then
  return {'outdated', job.schedule}
end
local late = text(now - slot * 1000)
if now < slot * 1000 then
  return {'early', late}
end
local run, attempt = load_run(slot), 1
if not run and slot <= job.pruned_to then
  return {'taken', 'missed'}
end
if ours(run, mine) then
  run.alive_until = math.max(run.alive_until, alive_until)
  save_run(run)
  return {'claimed', text(run.attempt), late, text(job.last_success_at), text(job.last_success_began)}
end
-- Workers of an older version do not know this field, but they keep it.
local refused = is_paused(job) and ARGV[7] ~= '1'
if run then
  local lapsed = lapse(job, run)
  if refused or run.outcome ~= 'abandoned' or run.attempt >= math.min(run.attempts, tonumber(ARGV[6])) then
    if lapsed then
      save_run(run)
      save_job(job)
    end
    return {'taken', run.outcome}
  end
  attempt = run.attempt + 1
elseif refused then
  return {'paused', job.paused_by}
end
save_run({
  slot = slot, run = mine, outcome = 'running', attempt = attempt, attempts = tonumber(ARGV[6]),
  alive_until = alive_until, started_at = now, owner = ARGV[4], token = 0, finished_at = 0, error = '', counters = '{}',
})
trim(job)
if ARGV[7] ~= '1' then
  job.last_slot = math.max(job.last_slot, slot)
end
save_job(job)
return {'claimed', text(attempt), late, text(job.last_success_at), text(job.last_success_began)}
