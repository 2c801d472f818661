-- ARGV: flight, token, epoch, 'value', 'failure' or 'pass', body, total ms, record ms, inline bytes, name of the entry,
-- 1 for a flight that was let through, channel of changes, ms that a value without room makes its key not cacheable,
-- most bytes of the wake-ups that carry one.
local flight, token, epoch, outcome, body = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local total_ms, record_ms, inline_bytes, name = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
local pass_ms, wake_bytes = tonumber(ARGV[12]), tonumber(ARGV[13])

-- Out of memory denies the script's first write, not those that follow a DEL, which takes no memory. Then a value may
-- take the place of an older one; and a small one is stored in any case, because without it computations of the key
-- would follow one another for as long as the server is full. What is large is told to the waiters and not kept.
local function store(key, stored, ms, most)
  local set = redis.pcall('SET', key, stored, 'PX', ms)
  if set.err and (redis.call('DEL', key) == 1 or #stored <= most) then
    set = redis.pcall('SET', key, stored, 'PX', ms)
  end
  return not set.err, set.err
end

local function mark_as_not_cacheable(ms)
  if ms > 0 then
    -- First a write that takes no memory: after it a server that is full lets this small one through.
    redis.call('DEL', KEYS[FAILURE])
    redis.pcall('SET', KEYS[FAILURE], string.format('P%016.0f%012.0f', token, ms), 'PX', ms)
  end
end

local record = fields(KEYS[RECORD], 'epoch', 'fence')
local value_token, old_total_ms, old_stale_ms, pttl = value_header()
local replaces_fresh = outcome == 'value' and value_token and is_fresh(old_total_ms, old_stale_ms, pttl)
value_token = value_token or 0
local stored = record[1] == epoch and token >= tonumber(record[2] or 0) and token >= value_token
local kind, payload, unkept = 'again', '', nil
if stored then
  if outcome == 'pass' then
    mark_as_not_cacheable(total_ms)
  elseif outcome == 'failure' then
    kind = outcome
    payload = body
    if total_ms > 0 then
      -- In any case: a full server must know of a failure more than any other, or every stale hit would ask the failing
      -- source again.
      store(KEYS[FAILURE], string.format('F%016.0f%012.0f', token, total_ms) .. body, total_ms, math.huge)
    end
  else
    kind = outcome
    local kept, why = store(KEYS[VALUE], body, total_ms, inline_bytes)
    unkept = why
    redis.call('DEL', KEYS[FAILURE])
    redis.call('HSET', KEYS[RECORD], 'fence', text(token))
    -- 1. A thousand processes wait for a value that a full server has no room for. 2. Woken, they ask, and one of them
    -- is granted the lease. 3. So the last would wait for a thousand computations. They are given the value itself; or,
    -- where that would be too much for a server without memory, they are let through beside one another. To everybody
    -- else the first is a value that was evicted at once, the second one that may not be stored: the search knows both.
    if #body <= inline_bytes or (not kept and #body * #redis.pcall('SMEMBERS', KEYS[WAITERS]) <= wake_bytes) then
      payload = body
    elseif not kept then
      mark_as_not_cacheable(pass_ms)
    end
  end
  live_longer(KEYS[RECORD], record_ms)
end
local lease = fields(KEYS[LEASE], 'owner', 'token')
if lease[1] == flight and tonumber(lease[2]) == token then
  redis.call('DEL', KEYS[LEASE])
end
if ARGV[10] == '1' or (stored and outcome ~= 'failure') then
  give_slot_back(flight)
end
announce(kind, name, token, payload)
if stored and replaces_fresh then
  outdate_copies(ARGV[11], name, token)
end
-- What was told and not kept: why.
return unkept or (stored and 1 or 0)
