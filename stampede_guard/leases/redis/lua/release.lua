-- ARGV: name, holder, token or 0, at least for (us), channel.
-- Returns -1 if lapsed places remain at the front: then call it again.
local name, holder, token, rest = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('HEXISTS', ROWS, name) == 0 then
  drop_place(name, holder)
  return 0
end
local row, was_holder = row_of(name)
lapse_places()
take_over_places(name, row)
local _, known = front(name)
if not known then
  if row.stale then
    save(name, row)
  end
  return -1
end
local left = drop_place(name, holder)
if holder == '' or was_holder ~= holder or (token ~= 0 and token ~= row.token) then
  if row.stale then
    save(name, row)
  end
  if row.holder == '' and row.rests_until == 0 then
    call_first(ARGV[5], name, CALLED)
    if left then
      tell_freed(ARGV[5], name, row.token)
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
save(name, row)
if row.rests_until == 0 then
  call_first(ARGV[5], name, CALLED)
end
tell_freed(ARGV[5], name, row.token)
return held
