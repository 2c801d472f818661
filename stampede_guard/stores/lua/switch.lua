-- KEYS: as for modes. ARGV: title, text of the switch or nothing, ms that it holds (0 = until changed), limit of
-- switches, name that the message is about, title that the limit does not apply to and that is not counted. Answers how
-- many inboxes were notified, or -1 for too many switches.
local now = now_us()
-- A first write that changes nothing. A kill switch must also work when the server is out of memory.
redis.call('HDEL', KEYS[1], '')
local stored = redis.call('HGETALL', KEYS[1])
local kept = 0
for index = 1, #stored, 2 do
  local ends = tonumber(string.match(stored[index + 1], '^(%d+) ') or 1)
  if ends ~= 0 and ends <= now then
    redis.call('HDEL', KEYS[1], stored[index])
  elseif stored[index] ~= ARGV[6] then
    kept = kept + 1
  end
end
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  if ARGV[1] ~= ARGV[6] and kept >= tonumber(ARGV[4]) and not redis.call('HMGET', KEYS[1], ARGV[1])[1] then
    return -1
  end
  local ends = tonumber(ARGV[3])
  if ends > 0 then
    ends = now + ends * 1000
  end
  redis.call('HSET', KEYS[1], ARGV[1], text(ends) .. ' ' .. ARGV[2])
end
-- Notify all inboxes of the server: the message is rare, and processes of other namespaces ignore it.
local inboxes = redis.pcall('PUBSUB', 'CHANNELS', 'stampede_guard:inbox:*')
if inboxes.err then
  return 0
end
local told = 0
for _, inbox in ipairs(inboxes) do
  local done = redis.pcall('PUBLISH', inbox, 'again\n0\n' .. #ARGV[5] .. '\n' .. ARGV[5])
  if type(done) == 'number' then
    told = told + done
  end
end
return told
