-- ARGV: epoch for a new record, record ms, name of the entry, channel of changes.
local now = now_us()
local value_token = value_header() or 0
local failure_token = failure() or 0
local lease_token = tonumber(fields(KEYS[LEASE], 'token')[1] or 0)
local record = fields(KEYS[RECORD], 'epoch', 'last')
local last = tonumber(record[2] or 0)
local fence = largest(last + 1, value_token + 1, failure_token + 1, lease_token + 1, now)
redis.call('DEL', KEYS[VALUE], KEYS[FAILURE])
local written = redis.pcall('HSET', KEYS[RECORD], 'epoch', record[1] or ARGV[1], 'last', text(fence),
  'fence', text(fence))
if type(written) == 'table' and written.err then
  -- Out of memory: the fence cannot be raised. But without a record, no earlier computation can be stored either.
  redis.call('DEL', KEYS[RECORD])
else
  live_longer(KEYS[RECORD], tonumber(ARGV[2]))
end
announce('again', ARGV[3], fence, '')
outdate_copies(ARGV[4], ARGV[3], fence)
return text(fence)
