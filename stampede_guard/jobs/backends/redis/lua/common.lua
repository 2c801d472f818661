-- This text stands before every script of the runs. KEYS of a job, always in this order, in one hash slot of a cluster:
-- 1 the job (JSON), 2 its runs (a hash: slot -> JSON), 3 their slots in order, 4 running slots, by their deadline,
-- 5 abandoned slots whose claim allowed another attempt, 6 to 10 the slots of each outcome in order.
-- A script reads a bounded number of runs. For more, the client calls it again.
-- The rules are those of stampede_guard/jobs/rules.py. Numbers are stored as text, because cjson would round them.
local JOB, RUNS, SLOTS, RUNNING, AGAIN = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- The arguments of the script. `look.lua` handles several jobs, and sets it for each job.
local GIVEN = ARGV
local ENDED = {
  completed = KEYS[6], failed = KEYS[7], missed = KEYS[8], skipped = KEYS[9], abandoned = KEYS[10],
}
-- MOST: the most runs that are kept of a job. TRIMMED: how many go at most when one is added beyond them.
local MOST, TRIMMED = 10000, 5
local JOB_NUMBERS = {
  'version', 'registered_at', 'scheduled_at', 'seen_at', 'seen_for', 'pruned_to', 'last_slot', 'last_success_at',
  'last_success_began', 'last_failure_at',
}
local RUN_NUMBERS = {'slot', 'attempt', 'attempts', 'alive_until', 'started_at', 'token', 'finished_at'}
local VANISHED = 'the worker vanished'

local function text(number)
  return string.format('%.0f', number)
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- After a first write that changes nothing, a server that is out of memory lets the script finish.
local function allow_writes()
  redis.call('HDEL', RUNS, '')
end

-- The rows that were read. They may be written again when there is no memory: a run that ended without an outcome would
-- count as abandoned. A new run needs memory that is there.
local read_rows = {}

local function parsed(stored, numbers)
  if not stored then
    return nil
  end
  local row = cjson.decode(stored)
  read_rows[row] = true
  for _, field in ipairs(numbers) do
    row[field] = tonumber(row[field])
  end
  return row
end

local function packed(row, numbers)
  local stored = {}
  for field, value in pairs(row) do
    stored[field] = value
  end
  for _, field in ipairs(numbers) do
    stored[field] = text(row[field])
  end
  return cjson.encode(stored)
end

local function load_job()
  return parsed(redis.call('GET', JOB), JOB_NUMBERS)
end

local function save_job(job)
  if read_rows[job] then
    allow_writes()
  end
  redis.call('SET', JOB, packed(job, JOB_NUMBERS))
end

local function load_run(slot)
  return parsed(redis.call('HGET', RUNS, text(slot)), RUN_NUMBERS)
end

-- Put the slot into the sorted set of its outcome, and into no other.
local function index_run(slot, outcome)
  for other, key in pairs(ENDED) do
    if other == outcome then
      redis.call('ZADD', key, slot, slot)
    else
      redis.call('ZREM', key, slot)
    end
  end
end

local function drop_run(slot)
  redis.call('HDEL', RUNS, slot)
  redis.call('ZREM', SLOTS, slot)
  redis.call('ZREM', AGAIN, slot)
  index_run(slot, '')
end

local function save_run(run)
  local slot = text(run.slot)
  if read_rows[run] then
    allow_writes()
  end
  redis.call('HSET', RUNS, slot, packed(run, RUN_NUMBERS))
  index_run(slot, run.outcome)
  redis.call('ZADD', SLOTS, slot, slot)
  if run.outcome == 'running' then
    redis.call('ZADD', RUNNING, text(run.alive_until), slot)
  else
    redis.call('ZREM', RUNNING, slot)
  end
  if run.outcome == 'abandoned' and run.attempt < run.attempts then
    redis.call('ZADD', AGAIN, slot, slot)
  else
    redis.call('ZREM', AGAIN, slot)
  end
end

-- Delete the oldest ended runs. So a job never has many more than MOST, even if no worker prunes.
local function trim(job)
  if redis.call('ZCARD', SLOTS) <= MOST then
    return
  end
  for _, slot in ipairs(redis.call('ZRANGE', SLOTS, 0, TRIMMED - 1)) do
    if not redis.call('ZSCORE', RUNNING, slot) then
      drop_run(slot)
      job.pruned_to = math.max(job.pruned_to, tonumber(slot))
    end
  end
end

-- A running row is abandoned if its worker sent no heartbeat in time. Returns whether it is.
local function lapse(job, run)
  if run.outcome ~= 'running' or now < run.alive_until then
    return false
  end
  run.outcome, run.finished_at, run.error = 'abandoned', now, VANISHED
  job.last_failure_at, job.last_error = now, VANISHED
  return true
end

-- Jobs that were never paused, and those of an older version, lack the fields of a pause.
local function is_paused(job)
  return (tonumber(job.paused_at) or 0) > 0
end

local function ours(run, mine)
  return run and run.run == mine and run.outcome == 'running'
end

-- ARGV of `register`, `follow` and `take_over`: schedule, fingerprint, rhythm, version, seen for (us).
local function put_schedule(job)
  job.schedule, job.fingerprint, job.rhythm, job.version = GIVEN[1], GIVEN[2], GIVEN[3], tonumber(GIVEN[4])
end

-- A request with the schedule in force is a sign that a worker follows it. A longer earlier sign stays valid.
local function seen(job)
  if job.fingerprint == GIVEN[2] then
    local said = math.min(job.seen_for, job.seen_at + job.seen_for - now)
    job.seen_at, job.seen_for = now, math.max(tonumber(GIVEN[5]), said)
  end
end

local function put_anew(job)
  if job.fingerprint ~= GIVEN[2] then
    job.scheduled_at, job.seen_for = now, 0
  end
  put_schedule(job)
end

local function view_of_job()
  local stored = redis.call('GET', JOB)
  if not stored then
    return {}
  end
  local found = {stored, text(now)}
  for _, slot in ipairs(redis.call('ZRANGE', RUNNING, 0, 199)) do
    found[#found + 1] = slot
  end
  return found
end
