-- ARGV: name, holder, token or 0, at least for (us), whom to prefer, channel
local name, holder, token, rest = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('HEXISTS', ROWS, name) == 0 then
  drop_place(name, holder)
  return 0
end
local row, was_holder = row_of(name)
lapse_places()
take_over_places(name, row)
local left = drop_place(name, holder)
if holder == '' or was_holder ~= holder or (token ~= 0 and token ~= row.token) then
  if row.stale then
    save(name, row)
  end
  if row.holder == '' and row.rests_until == 0 then
    call_first(ARGV[6], name, CALLED)
    if left then
      tell_freed(ARGV[6], name, row.token)
    end
  end
  return 0
end
local held = row.holder ~= '' and 1 or 0
row.holder, row.deadline, row.asked_to_leave, row.witness, row.missing_since = '', 0, '', '', 0
local earliest = row.granted_at + rest
if now < earliest then
  row.rest, row.rests_until = rest, math.min(earliest, now + rest)
else
  row.rest, row.rests_until = 0, 0
end
if ARGV[5] ~= '' then
  -- Before the first who waits, in the order that they had. This alone looks at all who wait: an operator's deed.
  local preferred, lowest = {}, nil
  for _, other in ipairs(waiting(name, 0, MOST_WAITING)) do
    local place = place_of(id_of(name, other))
    lowest = lowest or tonumber(place.position)
    local owner = cjson.decode(place.owner)
    if owner.process == ARGV[5] or owner.pod == ARGV[5] or owner.host == ARGV[5] or owner.label == ARGV[5] then
      preferred[#preferred + 1] = {holder = other, place = place}
    end
  end
  for index, one in ipairs(preferred) do
    redis.call('ZREM', QUEUE, name .. '\0' .. one.place.position .. one.holder)
    one.place.position = string.format('%016.0f', lowest - #preferred + index - 1)
    put_place(name, one.holder, one.place)
  end
end
save(name, row)
if row.rests_until == 0 then
  call_first(ARGV[6], name, CALLED)
end
tell_freed(ARGV[6], name, row.token)
return held
