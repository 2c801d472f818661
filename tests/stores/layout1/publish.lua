-- ARGV: flight, token, epoch, 'value' or 'failure', body, total ms, record ms, inline bytes, name of the entry.
local flight, token, epoch, outcome, body = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local total_ms, record_ms, inline_bytes, name = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]

local record = fields(KEYS[RECORD], 'epoch', 'fence')
local value_token = value_header() or 0
local stored = record[1] == epoch and token >= tonumber(record[2] or 0) and token >= value_token
local kind, payload = 'again', ''
if stored then
  kind = outcome
  if outcome == 'failure' then
    payload = body
    if total_ms > 0 then
      redis.pcall('SET', KEYS[FAILURE], string.format('%016.0f', token) .. body, 'PX', total_ms)
    end
  else
    -- Out of memory denies the script's first write, not those that follow: a value may take the place of an older one,
    -- and a new one may not be stored. Waiters get it all the same.
    local set = redis.pcall('SET', KEYS[VALUE], body, 'PX', total_ms)
    if set.err and redis.call('DEL', KEYS[VALUE]) == 1 then
      redis.pcall('SET', KEYS[VALUE], body, 'PX', total_ms)
    end
    redis.call('DEL', KEYS[FAILURE])
    redis.call('HSET', KEYS[RECORD], 'fence', text(token))
    redis.pcall('ZREM', KEYS[SLOTS], flight)
    if #body <= inline_bytes then
      payload = body
    end
  end
  live_longer(KEYS[RECORD], record_ms)
end
local lease = fields(KEYS[LEASE], 'owner', 'token')
if lease[1] == flight and tonumber(lease[2]) == token then
  redis.call('DEL', KEYS[LEASE])
end
announce(kind, name, token, payload)
return stored and 1 or 0
