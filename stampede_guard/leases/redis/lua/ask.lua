-- ARGV: name, holder, owner, lease ttl, place, longest ttl of this name's leases (all in us), '1' = a restart lost nothing,
-- '1' = who asks has had an answer before
local name, holder, owner = ARGV[1], ARGV[2], ARGV[3]
local lease_ttl, seconds, longest = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local row = row_of(name)
local run, lasted = life(ARGV[8] == '1')

if row.holder == holder then
  if row.asked_to_leave ~= '' then
    return {'held', row.owner, text(row.token), text(row.deadline - now), -1, 0}
  end
  extend(row, lease_ttl)
  row.run = run
  save(name, row)
  return {'granted', text(row.token)}
end

local before = position(row.queue, holder) - 1
local free = row.holder == '' and row.rests_until == 0 and before == 0
if free and (row.run == run or lasted >= longest or ARGV[7] == '1') then
  local token = math.max(row.last + 1, now)
  row.last, row.token, row.holder, row.owner, row.run = token, token, holder, owner, run
  row.lease_ttl, row.granted_at, row.renewed_at, row.deadline = lease_ttl, now, now, now + lease_ttl
  row.rest, row.rests_until, row.asked_to_leave = 0, 0, ''
  row.queue = without(row.queue, holder)
  save(name, row)
  forget_some()
  return {'granted', text(token)}
end

local place = before < #row.queue and before or -1
if seconds > 0 and (before < #row.queue or #row.queue < MOST_WAITING) then
  row.queue[before + 1] = {holder = holder, owner = owner, ['until'] = now + seconds, seconds = seconds}
  place = before
  row.stale = true
end
if row.stale then
  save(name, row)
end
if free then
  return {'withheld', text(longest - lasted)}
end
if row.holder ~= '' then
  return {'held', row.owner, text(row.token), text(row.deadline - now), place, 0}
end
if row.rests_until > 0 then
  return {'held', row.owner, text(row.token), text(row.rests_until - now), place, 1}
end
local first = row.queue[1]
return {'held', first.owner, text(row.last), text(first['until'] - now), place, 0}
