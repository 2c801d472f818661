-- ARGV: flight, token, inbox, lease ms, record ms. Never creates.
local lease = fields(KEYS[LEASE], 'owner', 'token')
if lease[1] ~= ARGV[1] or tonumber(lease[2]) ~= tonumber(ARGV[2]) then
  return 0
end
-- Out of memory denies HSET; the deadline can still be moved.
redis.pcall('HSET', KEYS[LEASE], 'inbox', ARGV[3])
redis.call('HDEL', KEYS[LEASE], 'missing')
redis.call('PEXPIRE', KEYS[LEASE], tonumber(ARGV[4]))
if redis.call('EXISTS', KEYS[RECORD]) == 1 then
  live_longer(KEYS[RECORD], tonumber(ARGV[5]))
end
return 1
