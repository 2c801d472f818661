-- ARGV: name, holder, token or 0, waiters. Moves those that still wait before all other waiters, in the order of ARGV.
-- Only whoever had the lease last may say who comes next, as in `release.lua`.
local name, holder, token, given = ARGV[1], ARGV[2], tonumber(ARGV[3]), 3
local row, was_holder = row_of(name)
if holder == '' or was_holder ~= holder or (token ~= 0 and token ~= row.token) then
  return 0
end
local first = waiting(name, 0, 1)[1]
local place = first and place_of(id_of(name, first))
local position = place and tonumber(place.position) - #ARGV
for index = given + 1, position and #ARGV or 0 do
  place = place_of(id_of(name, ARGV[index]))
  if place then
    redis.call('ZREM', QUEUE, name .. '\0' .. place.position .. ARGV[index])
    place.position = string.format('%016.0f', position + index - given)
    put_place(name, ARGV[index], place)
  end
end
return 0
