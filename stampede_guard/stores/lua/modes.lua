-- KEYS: the switches of a namespace, a hash. Each field has the microsecond at which it ends (0 = never) and its text.
local now = now_us()
local stored = redis.pcall('HGETALL', KEYS[1])
local found = {}
if stored.err then
  -- A missing permission is an error. A key of another type is not ours and counts as empty.
  return string.find(stored.err, 'WRONGTYPE', 1, true) and found or stored
end
for index = 1, #stored, 2 do
  local ends, mode = string.match(stored[index + 1], '^(%d+) (.*)$')
  ends = tonumber(ends)
  if ends and (ends == 0 or ends > now) then
    found[#found + 1] = stored[index]
    found[#found + 1] = mode
    found[#found + 1] = ends == 0 and -1 or math.ceil((ends - now) / 1000)
  end
end
return found
