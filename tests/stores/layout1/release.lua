-- ARGV: flight, name of the entry.
local lease = fields(KEYS[LEASE], 'owner', 'token')
if lease[1] ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[LEASE])
announce('again', ARGV[2], tonumber(lease[2] or 0), '')
return 1
