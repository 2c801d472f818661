-- ARGV: name, holder, owner, lease ttl, place, longest ttl of this name's leases (all in us), '1' = a restart lost
-- nothing, '1' = the acquirer's process has had an answer before, turn (us), witness, channel
local name, holder, owner = ARGV[1], ARGV[2], ARGV[3]
local lease_ttl, seconds, longest = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local turn, witness, channel = tonumber(ARGV[9]), ARGV[10], ARGV[11]
local row = row_of(name)
lapse_places()
take_over_places(name, row)
local first, known = front(name)
if not known then
  if row.stale then
    save(name, row)
  end
  return {'again'}
end

if row.holder == holder then
  if row.asked_to_leave ~= '' then
    return {'held', row.owner, text(row.token), text(row.deadline - now), -1, 0}
  end
  extend(row, lease_ttl, witness)
  row.run = life(ARGV[8] == '1')
  save(name, row)
  return {'granted', text(row.token)}
end
if row.holder ~= '' then
  doubt(row)
end

local free = row.holder == '' and row.rests_until == 0
local ours = free and (first == nil or first == holder)
local lasted = 0
if ours then
  local run
  run, lasted = life(ARGV[8] == '1')
  if row.run == run or lasted >= longest or ARGV[7] == '1' then
    local token = math.max(row.last + 1, now)
    row.last, row.token, row.holder, row.owner, row.run = token, token, holder, owner, run
    row.lease_ttl, row.granted_at, row.renewed_at, row.deadline = lease_ttl, now, now, now + lease_ttl
    row.rest, row.rests_until, row.asked_to_leave, row.witness, row.missing_since = 0, 0, '', witness, 0
    drop_place(name, holder)
    save(name, row)
    forget_some()
    return {'granted', text(token)}
  end
end

if seconds > 0 then
  join(name, holder, owner, seconds, turn)
end
local place = place_of(id_of(name, holder))
if place then
  put('ZADD', OLD, 'GT', text(place.till + KEPT_US), name)
end
local ahead = place and ahead_of(name, holder, place) or -1
if row.stale then
  save(name, row)
end
if ours then
  return {'withheld', text(longest - lasted)}
end
if row.holder ~= '' then
  local till = row.missing_since > 0 and math.min(row.deadline, row.missing_since + GONE_FOR) or row.deadline
  return {'held', row.owner, text(row.token), text(till - now), ahead, 0}
end
if row.rests_until > 0 then
  return {'held', row.owner, text(row.token), text(row.rests_until - now), ahead, 1}
end
call_first(channel, name, math.min(CALLED, ahead < 0 and CALLED or ahead))
local before = place_of(id_of(name, first))
return {'held', before.owner, text(row.last), text(before.till - now), ahead, 0}
