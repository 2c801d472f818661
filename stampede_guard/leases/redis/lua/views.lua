-- ARGV: how many places, names. Server's time, then for each name that is known: name, row, how many places, and those.
local found, most = {text(now)}, tonumber(ARGV[1])
for index = 2, #ARGV do
  local name = ARGV[index]
  local stored = redis.call('HGET', ROWS, name)
  if stored then
    local holders = waiting(name, 0, most)
    found[#found + 1] = name
    found[#found + 1] = stored
    found[#found + 1] = text(#holders)
    for _, holder in ipairs(holders) do
      found[#found + 1] = holder
      found[#found + 1] = redis.call('HGET', PLACES, id_of(name, holder)) or ''
    end
  end
end
return found
