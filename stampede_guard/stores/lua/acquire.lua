-- ARGV: flight, inbox, epoch for a new record, lease ms, record ms, takeover ms, newer than this token,
-- the number that may compute at once while the key is uncacheable, ms for each of them.
local flight, inbox, new_epoch = ARGV[1], ARGV[2], ARGV[3]
local lease_ms, record_ms, takeover_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now = now_us()

-- Read again: a value may have been published between the caller's read and this script.
local value_token, total_ms, stale_ms, pttl = value_header()
if value_token and value_token > tonumber(ARGV[7]) and is_fresh(total_ms, stale_ms, pttl) then
  return {'found', redis.call('GET', KEYS[VALUE]), pttl}
end
value_token = value_token or 0

local record = fields(KEYS[RECORD], 'epoch', 'last', 'fence')
local epoch, last, fence = record[1], tonumber(record[2] or 0), tonumber(record[3] or 0)
local failure_token, failure_body, passes, failure_ms = failure()
local failed = failure_token and failure_token >= fence and in_time(KEYS[FAILURE], failure_ms)
passes = passes and failed
if failed and not passes then
  return {'failed', failure_body, text(failure_token), redis.call('PTTL', KEYS[FAILURE])}
end
failure_token = failure_token or 0

local lease = fields(KEYS[LEASE], 'owner', 'token', 'epoch', 'inbox', 'missing', 'ms')
local lease_token = tonumber(lease[2] or 0)
-- A first write that changes nothing. After it, a server that is out of memory lets the script finish. The writes below
-- are small and expire, and a full server needs its leases more than any other server.
redis.call('HDEL', KEYS[LEASE], '')
if not epoch then
  epoch = new_epoch
  last = largest(value_token, failure_token, lease_token, now)
  fence = last
  redis.call('HSET', KEYS[RECORD], 'epoch', epoch, 'last', text(last), 'fence', text(fence))
end
live_longer(KEYS[RECORD], record_ms)

local held = lease[1] and lease[1] ~= flight
if lease[1] == flight and lease[3] == epoch and lease_token >= fence then
  renew_lease(lease_ms, inbox)
  return {'granted', text(lease_token), epoch}
end
local token = largest(last + 1, value_token + 1, failure_token + 1, lease_token + 1, now)
if passes then
  if lease[1] == flight then
    redis.call('DEL', KEYS[LEASE])
  end
  if others_in_slots(flight, now) >= tonumber(ARGV[8]) then
    if inbox ~= '' then
      write('SADD', KEYS[WAITERS], inbox)
      live_longer(KEYS[WAITERS], record_ms)
    end
    return {'held', text(fence), 0, text(last)}
  end
  redis.call('HSET', KEYS[RECORD], 'last', text(token))
  take_slot(flight, now, tonumber(ARGV[9]))
  return {'passing', text(token), epoch, text(value_token)}
end
if held and in_time(KEYS[LEASE], tonumber(lease[6] or 0)) then
  -- suspect: 2 for the first check that misses the inbox, 1 for later ones.
  local missing, suspect = tonumber(lease[5] or 0), 0
  if not lease[4] or lease[4] == '' or is_listening(lease[4]) ~= false then
    if missing > 0 then
      redis.call('HDEL', KEYS[LEASE], 'missing')
    end
  elseif missing == 0 then
    redis.call('HSET', KEYS[LEASE], 'missing', text(now))
    suspect = 2
  elseif now - missing >= takeover_ms * 1000 then
    held = false
  else
    suspect = 1
  end
  if held then
    if inbox ~= '' then
      write('SADD', KEYS[WAITERS], inbox)
      live_longer(KEYS[WAITERS], record_ms)
    end
    return {'held', text(fence), suspect, text(last)}
  end
end

redis.call('HSET', KEYS[RECORD], 'last', text(token))
redis.call('DEL', KEYS[LEASE])
redis.call('HSET', KEYS[LEASE], 'owner', flight, 'token', text(token), 'epoch', epoch, 'inbox', confirmed(inbox),
  'ms', text(lease_ms))
redis.call('PEXPIRE', KEYS[LEASE], lease_ms)
return {'granted', text(token), epoch, text(value_token)}
