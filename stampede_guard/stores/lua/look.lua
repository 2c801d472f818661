-- Shows one entry to an operator. Writes nothing. KEYS: as always. ARGV: bytes of the value and of the failure.
local function length(key)
  local bytes = redis.pcall('STRLEN', key)
  return type(bytes) == 'number' and bytes or -1
end

local function begin(key, bytes)
  local read = redis.pcall('GETRANGE', key, 0, bytes - 1)
  return type(read) == 'string' and read or ''
end

local function hash(key, ...)
  local found = redis.pcall('HMGET', key, ...)
  return found.err and {} or found
end

local value_bytes, failure_bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local lease = hash(KEYS[LEASE], 'owner', 'token', 'epoch', 'inbox', 'missing')
local listening = -1
if lease[4] and lease[4] ~= '' then
  local seen = is_listening(lease[4])
  listening = seen == nil and -1 or seen and 1 or 0
end
local waiters = redis.pcall('SCARD', KEYS[WAITERS])
local slots = redis.pcall('ZRANGE', KEYS[SLOTS], 0, 99, 'WITHSCORES')
return {
  text(now_us()),
  {length(KEYS[VALUE]), begin(KEYS[VALUE], value_bytes), redis.call('PTTL', KEYS[VALUE])},
  {length(KEYS[FAILURE]), begin(KEYS[FAILURE], failure_bytes), redis.call('PTTL', KEYS[FAILURE])},
  hash(KEYS[RECORD], 'epoch', 'last', 'fence'), redis.call('PTTL', KEYS[RECORD]),
  lease, redis.call('PTTL', KEYS[LEASE]), listening,
  type(waiters) == 'number' and waiters or -1,
  slots.err and {} or slots,
}
