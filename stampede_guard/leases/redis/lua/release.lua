-- ARGV: name, holder, token or 0, at least for (us), whom to prefer, channel
local name, holder, token, rest = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('HEXISTS', ROWS, name) == 0 then
  return 0
end
local row, was_holder = row_of(name)
local waiting = #row.queue
row.queue = without(row.queue, holder)
if holder == '' or was_holder ~= holder or (token ~= 0 and token ~= row.token) then
  if row.stale or #row.queue < waiting then
    save(name, row)
    if #row.queue < waiting and row.holder == '' then
      tell_freed(ARGV[6], name, row.token)
    end
  end
  return 0
end
local held = row.holder ~= '' and 1 or 0
row.holder, row.deadline, row.asked_to_leave = '', 0, ''
local earliest = row.granted_at + rest
if now < earliest then
  row.rest, row.rests_until = rest, math.min(earliest, now + rest)
else
  row.rest, row.rests_until = 0, 0
end
if ARGV[5] ~= '' then
  local preferred, others = {}, {}
  for _, place in ipairs(row.queue) do
    local owner = cjson.decode(place.owner)
    local called = owner.process == ARGV[5] or owner.pod == ARGV[5] or owner.host == ARGV[5] or owner.label == ARGV[5]
    local into = called and preferred or others
    into[#into + 1] = place
  end
  for _, place in ipairs(others) do
    preferred[#preferred + 1] = place
  end
  row.queue = preferred
end
save(name, row)
tell_freed(ARGV[6], name, row.token)
return held
