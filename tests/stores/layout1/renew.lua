-- ARGV: flight, token, inbox, lease ms, record ms. Never creates.
local lease = fields(KEYS[LEASE], 'owner', 'token')
if lease[1] ~= ARGV[1] or tonumber(lease[2]) ~= tonumber(ARGV[2]) then
  return 0
end
-- The deadline first: after a write that takes no memory, HSET is allowed also when there is none left.
redis.call('PEXPIRE', KEYS[LEASE], tonumber(ARGV[4]))
redis.call('HSET', KEYS[LEASE], 'inbox', confirmed(ARGV[3]))
redis.call('HDEL', KEYS[LEASE], 'missing')
if redis.call('EXISTS', KEYS[RECORD]) == 1 then
  live_longer(KEYS[RECORD], tonumber(ARGV[5]))
end
return 1
