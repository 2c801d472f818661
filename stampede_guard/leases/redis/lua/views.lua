-- ARGV: the names' beginning, how many, '1' = it is one whole name. Server's time, then names and rows.
local found = {text(now)}
if ARGV[3] == '1' then
  local stored = redis.call('HGET', ROWS, ARGV[1])
  return stored and {text(now), ARGV[1], stored} or found
end
local names = {}
for _, name in ipairs(redis.call('HKEYS', ROWS)) do
  if string.sub(name, 1, #ARGV[1]) == ARGV[1] then
    names[#names + 1] = name
  end
end
table.sort(names)
for index = 1, math.min(#names, tonumber(ARGV[2])) do
  found[#found + 1] = names[index]
  found[#found + 1] = redis.call('HGET', ROWS, names[index])
end
return found
