-- In the namespace's own hash slot. KEYS are those of `common.lua`, but here the first is a set of the jobs' names.
-- ARGV: 'add' or 'drop' and a name, or 'some' and the cursor of the last call ('0' at first). 'some' returns the next
-- cursor, and names.
if ARGV[1] == 'add' then
  -- Names are few and short. After a first write that changes nothing, a full server lets the script finish.
  redis.call('SREM', JOB, '')
  return redis.call('SADD', JOB, ARGV[2])
elseif ARGV[1] == 'drop' then
  return redis.call('SREM', JOB, ARGV[2])
end
local reply = redis.call('SSCAN', JOB, ARGV[2], 'COUNT', 100)
return {reply[1], unpack(reply[2])}
