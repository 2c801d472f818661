-- ARGV: number of places, offset, names.
-- Returns the server's time, then for each known name: name, row, number of places, holder and place of each.
-- NOBODYS stands for a holder in QUEUE whose place is missing in PLACES.
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
