-- ARGV: flight, name of the entry.
local lease = fields(KEYS[LEASE], 'owner', 'token')
local passed = give_slot_back(ARGV[1])
if lease[1] == ARGV[1] then
  redis.call('DEL', KEYS[LEASE])
elseif not passed then
  return 0
end
announce('again', ARGV[2], tonumber(lease[2] or 0), '')
return 1
