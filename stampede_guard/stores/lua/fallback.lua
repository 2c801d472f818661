-- ARGV: flight, epoch for a new record, limit, slot ms, record ms, newer than this token.
local flight, limit = ARGV[1], tonumber(ARGV[3])
local slot_ms, record_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local now = now_us()
local value_token, total_ms, stale_ms, pttl = value_header()
if value_token and value_token > tonumber(ARGV[6]) and is_fresh(total_ms, stale_ms, pttl) then
  return {'found', redis.call('GET', KEYS[VALUE]), pttl}
end

if others_in_slots(flight, now) >= limit then
  return {'denied'}
end
local record = fields(KEYS[RECORD], 'epoch', 'last')
local epoch, last = record[1], tonumber(record[2] or 0)
local lease_token = tonumber(fields(KEYS[LEASE], 'token')[1] or 0)
local failure_token = failure() or 0
if not epoch then
  epoch = ARGV[2]
  last = largest(value_token or 0, failure_token, lease_token, now)
  redis.call('HSET', KEYS[RECORD], 'epoch', epoch, 'last', text(last), 'fence', text(last))
end
local token = largest(last + 1, (value_token or 0) + 1, failure_token + 1, lease_token + 1, now)
redis.call('HSET', KEYS[RECORD], 'last', text(token))
live_longer(KEYS[RECORD], record_ms)
take_slot(flight, now, slot_ms)
return {'granted', text(token), epoch}
