-- What a worker does for its jobs now and then, for several in one step: it says that it is there, and marks the runs that
-- have vanished. KEYS: those of `common.lua` for each job. ARGV, for each job: see `put_schedule`, how many runs to mark at
-- most, attempts (below 2: none is to be tried again), how many of those at most.
-- For each job: its view, the runs marked, the runs to be tried again.
local found, keys, args = {}, 10, 8
for number = 0, #KEYS / keys - 1 do
  local first = number * keys
  JOB, RUNS, SLOTS, RUNNING, AGAIN = KEYS[first + 1], KEYS[first + 2], KEYS[first + 3], KEYS[first + 4], KEYS[first + 5]
  ENDED = {
    completed = KEYS[first + 6], failed = KEYS[first + 7], missed = KEYS[first + 8], skipped = KEYS[first + 9],
    abandoned = KEYS[first + 10],
  }
  GIVEN = {}
  for index = 1, args do
    GIVEN[index] = ARGV[number * args + index]
  end
  local job, marked, again = load_job(), {}, {}
  if job then
    if tonumber(GIVEN[4]) > job.version then
      put_anew(job)
    end
    seen(job)
    for _, slot in ipairs(redis.call('ZRANGEBYSCORE', RUNNING, '-inf', text(now), 'LIMIT', 0, tonumber(GIVEN[6]))) do
      local run = load_run(tonumber(slot))
      if run and lapse(job, run) then
        save_run(run)
        marked[#marked + 1] = redis.call('HGET', RUNS, slot)
      end
    end
    if #marked > 0 or job.fingerprint == GIVEN[2] then
      save_job(job)
    end
    local attempts = tonumber(GIVEN[7])
    for _, slot in ipairs(attempts > 1 and redis.call('ZRANGE', AGAIN, 0, tonumber(GIVEN[8]) - 1) or {}) do
      local stored = redis.call('HGET', RUNS, slot)
      if stored and tonumber(cjson.decode(stored).attempt) < attempts then
        again[#again + 1] = stored
      end
    end
    found[#found + 1] = {view_of_job(), marked, again}
  else
    found[#found + 1] = {{}, {}, {}}
  end
end
return found
