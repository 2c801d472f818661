-- ARGV: name, holders. Moves the holders that still wait before all other waiters, in the order of ARGV.
local name = ARGV[1]
local first = waiting(name, 0, 1)[1]
local place = first and place_of(id_of(name, first))
local position = place and tonumber(place.position) - #ARGV
for index = 2, position and #ARGV or 0 do
  place = place_of(id_of(name, ARGV[index]))
  if place then
    redis.call('ZREM', QUEUE, name .. '\0' .. place.position .. ARGV[index])
    place.position = string.format('%016.0f', position + index - 1)
    put_place(name, ARGV[index], place)
  end
end
return 0
