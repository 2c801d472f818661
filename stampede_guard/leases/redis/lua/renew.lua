-- ARGV: name, holder, token, lease ttl (us), witness
local row = row_of(ARGV[1])
if row.stale then
  save(ARGV[1], row)
end
if row.holder == '' then
  if tonumber(ARGV[3]) > row.last then
    forgotten(tonumber(ARGV[3]))
  end
  return {'gone'}
end
if row.holder ~= ARGV[2] or row.token ~= tonumber(ARGV[3]) then
  return {'taken'}
end
if row.asked_to_leave == '' then
  extend(row, tonumber(ARGV[4]), ARGV[5])
  -- A holder that still renews is the last one that got the lease. So the row is confirmed in this life of the server.
  row.run = life()
else
  row.witness, row.missing_since = ARGV[5], 0
end
save(ARGV[1], row)
return {'renewed', row.asked_to_leave}
