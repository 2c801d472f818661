-- Returns maxmemory-policy and maxmemory (bytes) of the server.
local info = redis.call('INFO', 'memory')
return {string.match(info, 'maxmemory_policy:([%w-]+)') or '', string.match(info, 'maxmemory:(%d+)') or '0'}
