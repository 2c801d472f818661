-- Adds numbers to the sums of one minute. KEYS: a hash. ARGV: the minute, its lifetime in milliseconds, then fields and
-- numbers. Returns the server's minute. If that is another one than the caller thinks, nothing was added.
local minute = math.floor(now_us() / 60000000)
if math.abs(minute - tonumber(ARGV[1])) > 1 then
  return minute
end
local names, sums = {}, {}
for index = 3, #ARGV, 2 do
  names[#names + 1] = ARGV[index]
end
local stored = fields(KEYS[1], unpack(names))
for index, name in ipairs(names) do
  sums[#sums + 1] = name
  sums[#sums + 1] = text((tonumber(stored[index] or 0) or 0) + tonumber(ARGV[2 + 2 * index]))
end
redis.call('HSET', KEYS[1], unpack(sums))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return minute
