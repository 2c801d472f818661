-- A worker's regular look at several of its jobs: it sends a sign for each job, and marks the runs that have vanished.
-- KEYS: those of `common.lua` for each job. ARGV, for each job: see `put_schedule`, the most runs to mark, attempts
-- (below 2: retry nothing), the most runs to retry.
-- Returns for each job: its view, the marked runs, the runs to retry, 1 = the limits left something out.
local found, keys, args = {}, 10, 8
-- The most runs to mark, to read and to name, of all jobs together. Each job alone is work already.
local marks, reads, names = 5, 10, 200

-- Save the job's row, and return its text. Do not use the table after this: its numbers are text now.
local function saved(job)
  for _, field in ipairs(JOB_NUMBERS) do
    job[field] = text(job[field])
  end
  local stored = cjson.encode(job)
  allow_writes()
  redis.call('SET', JOB, stored)
  return stored
end

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
  local stored = redis.call('GET', JOB)
  local job, view, marked, again, more = parsed(stored, JOB_NUMBERS), {}, {}, {}, 0
  if job then
    if tonumber(GIVEN[4]) > job.version then
      put_anew(job)
    end
    seen(job)
    view[1], view[2] = stored, text(now)
    -- In the order of their deadlines: lapsed runs come first.
    local running = redis.call('ZRANGE', RUNNING, 0, math.min(199, names), 'WITHSCORES')
    local most = math.min(tonumber(GIVEN[6]), marks)
    for index = 1, #running, 2 do
      local slot, run = running[index], nil
      if tonumber(running[index + 1]) <= now then
        if #marked < most then
          run = load_run(tonumber(slot))
        else
          more = 1
        end
      end
      if run and lapse(job, run) then
        save_run(run)
        marked[#marked + 1] = redis.call('HGET', RUNS, slot)
      elseif names > 0 then
        view[#view + 1], names = slot, names - 1
      else
        more = 1
      end
    end
    marks = marks - #marked
    if #marked > 0 or job.fingerprint == GIVEN[2] then
      view[1] = saved(job)
    end
    local attempts, wanted = tonumber(GIVEN[7]), tonumber(GIVEN[8])
    if attempts > 1 then
      -- Fetch one slot more than are read, to learn whether there are more.
      local window = math.min(wanted, reads)
      local slots = redis.call('ZRANGE', AGAIN, 0, window)
      for index = 1, math.min(window, #slots) do
        local run = redis.call('HGET', RUNS, slots[index])
        reads = reads - 1
        if run and tonumber(cjson.decode(run).attempt) < attempts then
          again[#again + 1] = run
        end
      end
      if #slots > window and #again < wanted then
        more = 1
      end
    end
  end
  found[#found + 1] = {view, marked, again, more}
end
return found
