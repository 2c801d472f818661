-- In the namespace's own slot: KEYS are those of `common.lua`, of which the first is a set of the jobs' names here.
-- ARGV: 'add' or 'drop' and a name, or 'some' and where the last call ended ('0' at first): where this one ends, and names.
if ARGV[1] == 'add' then
  return redis.call('SADD', JOB, ARGV[2])
elseif ARGV[1] == 'drop' then
  return redis.call('SREM', JOB, ARGV[2])
end
local reply = redis.call('SSCAN', JOB, ARGV[2], 'COUNT', 100)
return {reply[1], unpack(reply[2])}
