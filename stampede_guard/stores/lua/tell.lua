-- Adds what happened to the stream of a namespace. KEYS: a stream. ARGV: the most items that are kept, their lifetime in
-- milliseconds, then for each item how many milliseconds ago it happened, and its text.
local now = math.floor(now_us() / 1000)
for index = 3, #ARGV, 2 do
  local at = text(now - tonumber(ARGV[index]))
  local added = redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'at', at, 'what', ARGV[index + 1])
  if type(added) == 'table' and added.err then
    if not string.find(added.err, 'WRONGTYPE', 1, true) then
      return added
    end
    -- A key of another type is not ours.
    redis.call('DEL', KEYS[1])
    redis.call('XADD', KEYS[1], '*', 'at', at, 'what', ARGV[index + 1])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'OK'
