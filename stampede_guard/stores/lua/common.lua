-- This text precedes every script. KEYS of an entry, always in this order and in one slot:
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

-- A key of the wrong type is not ours. It is deleted; otherwise every later call would fail.
local function fields(key, ...)
  local found = redis.pcall('HMGET', key, ...)
  if found.err then
    redis.call('DEL', key)
    return {}
  end
  return found
end

-- Token, total and stale milliseconds of the stored value, and its PTTL. Nothing if there is no value of ours. The
-- additional field of SG2 stands after the fields of SG1, and no script needs it.
local function value_header()
  local head = redis.pcall('GETRANGE', KEYS[VALUE], 0, 50)
  if type(head) ~= 'string' then
    return nil
  end
  local layout = string.sub(head, 1, 3)
  local size = layout == 'SG2' and 51 or layout == 'SG1' and 43
  if not size or #head < size or not string.find(string.sub(head, 4, size), '^%d+$') then
    return nil
  end
-- 2^53: from here on, adding one gives the same number, and the next token would not fit the header.
  if tonumber(string.sub(head, 4, 19)) >= 9007199254740992 then
    return nil
  end
  return tonumber(string.sub(head, 4, 19)), tonumber(string.sub(head, 20, 31)),
    tonumber(string.sub(head, 32, 43)), redis.call('PTTL', KEYS[VALUE])
end

local function is_fresh(total_ms, stale_ms, pttl)
  return stale_ms < pttl and pttl <= total_ms
end

-- The stored failure: token, body, whether it marks a value that may not be stored, and its lifetime in ms.
-- `F`, token (16), ms (12), body; or `P` without a body. Older versions write neither ms nor `F`: ms is unknown then.
local function failure()
  local stored = redis.pcall('GET', KEYS[FAILURE])
  if type(stored) ~= 'string' then
    return nil
  end
  local kind, token, rest = string.match(stored, '^([PF]?)(' .. string.rep('%d', 16) .. ')(.*)$')
  local ms = kind and kind ~= '' and string.match(rest, '^' .. string.rep('%d', 12))
  if not kind or (kind == 'F' and not ms) then
    return nil
  end
  if kind == 'P' then
    return tonumber(token), '', true, tonumber(ms or 0)
  end
  return tonumber(token), kind == 'F' and string.sub(rest, 13) or rest, false, tonumber(ms or 0)
end

-- Whether a key may still count. It may not if more time is left than its lifetime (`ms`; 0 = unknown). Then the clock
-- has stepped back or an operator has changed its expiry, and the key's age is unknown.
local function in_time(key, ms)
  if ms == 0 then
    return true
  end
  local pttl = redis.call('PTTL', key)
  return pttl >= 0 and pttl <= ms
end

-- A write to a key that may have the wrong type. Such a key is not ours and is deleted.
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

-- Whether an inbox has a subscriber. nil where the server refuses to answer.
local function is_listening(inbox)
  local seen = redis.pcall('PUBSUB', 'NUMSUB', inbox)
  if seen.err then
    return nil
  end
  return tonumber(seen[2]) > 0
end

-- The inbox that a lease may name. After a restart, a process may not know yet that its subscription is gone.
local function confirmed(inbox)
  if inbox ~= '' and is_listening(inbox) == false then
    return ''
  end
  return inbox
end

-- A sign of life of the lease's owner.
local function renew_lease(ms, inbox)
  -- Set the deadline first. After this write without memory use, a full server allows HSET.
  redis.call('PEXPIRE', KEYS[LEASE], ms)
  redis.call('HSET', KEYS[LEASE], 'inbox', confirmed(inbox), 'ms', text(ms))
  redis.call('HDEL', KEYS[LEASE], 'missing')
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

-- The flight of a slot, and the ms that it was given. Older versions store the flight alone: ms is unknown (0) then.
local function slot_of(member)
  local flight, ms = string.match(member, '^(.+) (%d+)$')
  return flight or member, tonumber(ms or 0)
end

-- How many other flights compute without the lease: fallbacks, and flights of an uncacheable key. A slot with more time
-- left than it was given was taken before the clock stepped back.
local function others_in_slots(flight, now)
  write('ZREMRANGEBYSCORE', KEYS[SLOTS], '-inf', text(now))
  local slots, others = redis.call('ZRANGEBYSCORE', KEYS[SLOTS], '-inf', '+inf', 'WITHSCORES'), 0
  for place = 1, #slots, 2 do
    local owner, ms = slot_of(slots[place])
    if ms > 0 and tonumber(slots[place + 1]) - now > ms * 1000 then
      redis.call('ZREM', KEYS[SLOTS], slots[place])
    elseif owner ~= flight then
      others = others + 1
    end
  end
  return others
end

-- Whether the flight had one until now. One whose time is over goes, too: a step of the clock would bring it back.
local function give_slot_back(flight)
  local slots = redis.pcall('ZRANGEBYSCORE', KEYS[SLOTS], '-inf', '+inf', 'WITHSCORES')
  local now, given = now_us(), false
  for place = 1, slots.err and 0 or #slots, 2 do
    if slot_of(slots[place]) == flight then
      redis.call('ZREM', KEYS[SLOTS], slots[place])
      given = given or tonumber(slots[place + 1]) > now
    end
  end
  return given
end

-- Each slot has its own lifetime: an asker with shorter times, in a rolling deploy, must not take it for an old one.
local function take_slot(flight, now, ms)
  give_slot_back(flight)
  redis.call('ZADD', KEYS[SLOTS], text(now + ms * 1000), flight .. ' ' .. text(ms))
  live_longer(KEYS[SLOTS], ms)
end

-- Notifies every process that keeps copies. No write may follow.
local function outdate_copies(channel, name, token)
  redis.pcall('PUBLISH', channel, 'again\n' .. text(token) .. '\n' .. #name .. '\n' .. name)
end

-- Whether the process with this inbox understands a trace in a message. Versions that do not have names of hexadecimal
-- digits behind the colon. See `stores/connections/inboxname.py`.
local function understands_traces(inbox)
  return string.sub(inbox, 1, 22) == 'stampede_guard:inbox:t'
end

-- Removes the waiters and notifies them. No write may follow. `trace`: the computation's, or nothing.
local function announce(kind, name, token, payload, trace)
  local inboxes = redis.pcall('SMEMBERS', KEYS[WAITERS])
  redis.call('DEL', KEYS[WAITERS])
  if inboxes.err then
    return
  end
  local rest = '\n' .. text(token) .. '\n' .. #name .. '\n' .. name .. payload
  local message = kind .. rest
  local traced = trace and kind .. ' ' .. trace .. rest
  for _, inbox in ipairs(inboxes) do
    redis.pcall('PUBLISH', inbox, traced and understands_traces(inbox) and traced or message)
  end
end
