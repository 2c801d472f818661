-- ARGV: flight, token, inbox, lease ms, record ms. Never creates a lease.
local lease = fields(KEYS[LEASE], 'owner', 'token')
if lease[1] ~= ARGV[1] or tonumber(lease[2]) ~= tonumber(ARGV[2]) then
  return 0
end
renew_lease(tonumber(ARGV[4]), ARGV[3])
if redis.call('EXISTS', KEYS[RECORD]) == 1 then
  live_longer(KEYS[RECORD], tonumber(ARGV[5]))
end
return 1
