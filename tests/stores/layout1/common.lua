-- Stands before every script. KEYS of an entry, always in this order and in one slot:
-- 1 value, 2 failure, 3 record, 4 lease, 5 waiters, 6 fallback slots.
local VALUE, FAILURE, RECORD, LEASE, WAITERS, SLOTS = 1, 2, 3, 4, 5, 6

local function now_us()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Tokens are about 1.8e15: tostring would print them as 1.8e+15.
local function text(number)
  return string.format('%.0f', number)
end

-- A key of the wrong type is not ours: it is dropped rather than failing every call from now on.
local function fields(key, ...)
  local found = redis.pcall('HMGET', key, ...)
  if found.err then
    redis.call('DEL', key)
    return {}
  end
  return found
end

-- Token, total and stale milliseconds of the stored value, and its PTTL; nothing if there is none of ours.
local function value_header()
  local head = redis.pcall('GETRANGE', KEYS[VALUE], 0, 42)
  if type(head) ~= 'string' or #head ~= 43 or not string.find(head, '^SG1%d+$') then
    return nil
  end
  -- 2^53: above it, one more is the same number, and the next token would not fit the header.
  if tonumber(string.sub(head, 4, 19)) >= 9007199254740992 then
    return nil
  end
  return tonumber(string.sub(head, 4, 19)), tonumber(string.sub(head, 20, 31)),
    tonumber(string.sub(head, 32, 43)), redis.call('PTTL', KEYS[VALUE])
end

local function is_fresh(total_ms, stale_ms, pttl)
  return stale_ms < pttl and pttl <= total_ms
end

local function failure()
  local stored = redis.pcall('GET', KEYS[FAILURE])
  if type(stored) ~= 'string' or not string.find(stored, '^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d') then
    return nil
  end
  return tonumber(string.sub(stored, 1, 16)), string.sub(stored, 17)
end

-- A write to a key that may be of the wrong type, which is then not ours.
local function write(command, key, ...)
  local done = redis.pcall(command, key, ...)
  if type(done) == 'table' and done.err and string.find(done.err, 'WRONGTYPE', 1, true) then
    redis.call('DEL', key)
    done = redis.pcall(command, key, ...)
  end
  return done
end

local function live_longer(key, ms)
  if redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, ms)
  end
end

-- Whether an inbox has a subscriber; nil where the server does not tell.
local function is_listening(inbox)
  local seen = redis.pcall('PUBSUB', 'NUMSUB', inbox)
  if seen.err then
    return nil
  end
  return tonumber(seen[2]) > 0
end

-- The inbox that a lease may name: after a restart nobody has noticed yet that his subscription is gone.
local function confirmed(inbox)
  if inbox ~= '' and is_listening(inbox) == false then
    return ''
  end
  return inbox
end

local function largest(...)
  local most = 0
  for _, number in ipairs({...}) do
    if number > most then
      most = number
    end
  end
  return most
end

-- Takes the waiters and tells them. Nothing may be written after this.
local function announce(kind, name, token, payload)
  local inboxes = redis.pcall('SMEMBERS', KEYS[WAITERS])
  redis.call('DEL', KEYS[WAITERS])
  if inboxes.err then
    return
  end
  local message = kind .. '\n' .. text(token) .. '\n' .. #name .. '\n' .. name .. payload
  for _, inbox in ipairs(inboxes) do
    redis.pcall('PUBLISH', inbox, message)
  end
end
