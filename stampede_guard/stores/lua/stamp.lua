-- ARGV: epoch for a new record, record ms. Answers with a token for a value that is there already.
local now = now_us()
local value_token = value_header() or 0
local failure_token = failure() or 0
local lease_token = tonumber(fields(KEYS[LEASE], 'token')[1] or 0)
local record = fields(KEYS[RECORD], 'epoch', 'last')
local epoch, last = record[1], tonumber(record[2] or 0)
-- A first write that changes nothing. After it, a server that is out of memory lets the script finish.
redis.call('HDEL', KEYS[LEASE], '')
if not epoch then
  epoch = ARGV[1]
  last = largest(value_token, failure_token, lease_token, now)
  redis.call('HSET', KEYS[RECORD], 'epoch', epoch, 'last', text(last), 'fence', text(last))
end
local token = largest(last + 1, value_token + 1, failure_token + 1, lease_token + 1, now)
redis.call('HSET', KEYS[RECORD], 'last', text(token))
live_longer(KEYS[RECORD], tonumber(ARGV[2]))
return {'granted', text(token), epoch}
