-- ARGV: where the last call ended ('0' at first). Where this one ends ('0' = it was the last), then names.
local reply = redis.call('HSCAN', ROWS, ARGV[1], 'COUNT', 100)
local found = {reply[1]}
for index = 1, #reply[2], 2 do
  found[#found + 1] = reply[2][index]
end
return found
