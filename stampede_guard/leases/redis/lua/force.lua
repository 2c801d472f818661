-- ARGV: name, token, by, '1' = at once, channel, how many audits are kept, '1' = record an audit
local name, row = ARGV[1], row_of(ARGV[1])
if row.stale then
  save(name, row)
end
if row.holder == '' then
  return {'no', '0'}
end
if row.token ~= tonumber(ARGV[2]) then
  return {'no', text(row.token)}
end
if ARGV[7] == '1' then
  put('LPUSH', AUDITS, cjson.encode({
    name = name, token = text(row.token), by = ARGV[3], at = text(now), now = ARGV[4] == '1', owner = row.owner,
  }))
  redis.call('LTRIM', AUDITS, 0, tonumber(ARGV[6]) - 1)
end
if ARGV[4] == '1' then
  row.holder, row.deadline, row.asked_to_leave, row.witness, row.missing_since = '', 0, '', '', 0
  save(name, row)
  if row.rests_until == 0 then
    lapse_places()
    front(name)
    call_first(ARGV[5], name, CALLED)
  end
  tell_freed(ARGV[5], name, row.token)
  return {'forced', '0'}
end
row.asked_to_leave = ARGV[3]
save(name, row)
tell_freed(ARGV[5], name, row.token)
return {'forced', text(row.deadline - now)}
