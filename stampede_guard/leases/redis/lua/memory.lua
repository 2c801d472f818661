-- What the server does when its memory is full: policy and limit in bytes.
local info = redis.call('INFO', 'memory')
return {string.match(info, 'maxmemory_policy:([%w-]+)') or '', string.match(info, 'maxmemory:(%d+)') or '0'}
