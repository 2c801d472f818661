-- ARGV: the cursor of the last call ('0' at first). Returns the next cursor ('0' = this was the last call), then names.
local reply = redis.call('HSCAN', ROWS, ARGV[1], 'COUNT', 100)
local found = {reply[1]}
for index = 1, #reply[2], 2 do
  found[#found + 1] = reply[2][index]
end
return found
