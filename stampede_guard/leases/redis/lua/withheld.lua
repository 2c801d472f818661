-- ARGV: the longest ttl of the leases in question (us). Returns for how much longer (us) this server grants no lease
-- that was not confirmed in its current life; 0 = it grants. Writes nothing, because operators only read with it.
local info = redis.call('INFO', 'server', 'replication')
local run = string.match(info, 'run_id:(%w+)') .. '.' .. (string.match(info, 'master_replid:(%w+)') or '')
local known = redis.call('HMGET', LIFE, 'run', 'since', 'rows')
local since = now - tonumber(string.match(info, 'uptime_in_seconds:(%d+)')) * 1000000
local lost = known[3] == '1' and redis.call('EXISTS', ROWS) == 0
if known[1] == run and not lost then
  since = tonumber(known[2])
elseif known[1] then
  since = now
end
return text(math.max(0, tonumber(ARGV[1]) - (now - since)))
