-- ARGV: how many places, after how many, names. Server's time, then for each name that is known: name, row, how many places, and those.
-- A place that is gone though it stands in the order.
local NOBODYS = '0 0 0 0 0 {}'
local found, most = {text(now)}, tonumber(ARGV[1])
for index = 3, #ARGV do
  local name = ARGV[index]
  local stored = redis.call('HGET', ROWS, name)
  if stored then
    local holders = waiting(name, ARGV[2], most)
    found[#found + 1] = name
    found[#found + 1] = stored
    found[#found + 1] = text(#holders)
    for index, place in ipairs(places_of(name, holders)) do
      found[#found + 1] = holders[index]
      found[#found + 1] = place or NOBODYS
    end
  end
end
return found
