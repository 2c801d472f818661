-- In the namespace's own slot: KEYS are those of `common.lua`, of which the first is a set of the jobs' names here.
-- ARGV: 'add' or 'drop' and a name, or 'all'.
if ARGV[1] == 'add' then
  return redis.call('SADD', JOB, ARGV[2])
elseif ARGV[1] == 'drop' then
  return redis.call('SREM', JOB, ARGV[2])
end
return redis.call('SMEMBERS', JOB)
