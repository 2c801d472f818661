-- ARGV: flight, token, epoch, 'value', 'failure' or 'pass', body, total ms, record ms, inline bytes, name of the entry,
-- 1 for a flight of an uncacheable key, channel of changes, ms for which a key is uncacheable when its value finds no
-- room, limit for the total bytes of wake-ups that carry such a value. Then, if there is one, the computation's trace.
local flight, token, epoch, outcome, body = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local total_ms, record_ms, inline_bytes, name = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
local uncacheable_ms, wake_bytes = tonumber(ARGV[12]), tonumber(ARGV[13])

-- A server that is out of memory denies the script's first write. It allows writes after a DEL, which takes no memory.
-- So a value may replace an older one. A small value is stored in any case. Without it, one computation of the key
-- would follow another while the server is full. A large value is sent to the waiters and not kept.
local function store(key, stored, ms, most)
  local set = redis.pcall('SET', key, stored, 'PX', ms)
  if set.err and (redis.call('DEL', key) == 1 or #stored <= most) then
    set = redis.pcall('SET', key, stored, 'PX', ms)
  end
  return not set.err, set.err
end

local function mark_as_not_cacheable(ms)
  if ms > 0 then
    -- First a write that takes no memory. After it, a full server allows this small one.
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
      -- Store it in any case. A full server needs failure records more than any other server. Without the record, every
      -- stale hit would ask the failing source again.
      store(KEYS[FAILURE], string.format('F%016.0f%012.0f', token, total_ms) .. body, total_ms, math.huge)
    end
  else
    kind = outcome
    local kept, why = store(KEYS[VALUE], body, total_ms, inline_bytes)
    unkept = why
    redis.call('DEL', KEYS[FAILURE])
    redis.call('HSET', KEYS[RECORD], 'fence', text(token))
    -- 1. A thousand processes wait for a value, and a full server has no room for it. 2. They wake up and ask again.
    -- One of them is granted the lease. 3. So the last process would wait for a thousand computations. Therefore the
    -- wake-up carries the value. If this is too much for a server without memory, the key becomes uncacheable, and they
    -- compute beside each other. To other callers the first case looks like a value evicted at once, and the second
    -- like a value that may not be stored. The exhaustive search covers both.
    if #body <= inline_bytes or (not kept and #body * #redis.pcall('SMEMBERS', KEYS[WAITERS]) <= wake_bytes) then
      payload = body
    elseif not kept then
      mark_as_not_cacheable(uncacheable_ms)
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
announce(kind, name, token, payload, kind ~= 'again' and ARGV[14])
if stored and replaces_fresh then
  outdate_copies(ARGV[11], name, token)
end
-- For a value that was sent to the waiters but not kept: the reason.
return unkept or (stored and 1 or 0)
