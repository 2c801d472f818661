-- This text is put before every lease script. KEYS of a namespace, always in this order and in one slot:
-- 1 rows (a hash: name -> JSON), 2 when rows may be forgotten (sorted set), 3 facts about the server's life (hash),
-- 4 actions of operators (list), 5 waiters, in order (sorted set of name, position, holder), 6 their places (a hash:
-- name and holder -> place), 7 when places lapse and 8 when they were last requested (sorted sets of name and holder).
-- No key has a time to live: the volatile-* policies evict only keys that have one.
-- The rules are those of leases/core/grants.py. Numbers in a row are microseconds or tokens. They are written as text,
-- because cjson would round them. A step reads and writes a bounded number of places, however many waiters there are.
local ROWS, OLD, LIFE, AUDITS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local QUEUE, PLACES, UNTIL, SINCE = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local NUMBERS = {'last', 'token', 'lease_ttl', 'granted_at', 'renewed_at', 'deadline', 'rest', 'rests_until'}
local KEPT_US = 86400000000
local GONE_FOR = 3000000
local MOST_WAITING = 1000
local CALLED = 3
local AT_ONCE = 25

local function text(number)
  return string.format('%.0f', number)
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- A write that may need memory. After a first write that changes nothing, a server that is out of memory lets the script
-- finish. Rows and places are small and bounded, and without them holders would lose their leases.
local written = false
local function put(...)
  if not written then
    redis.call('HDEL', ROWS, '')
    written = true
  end
  return redis.call(...)
end

-- Places. A member of QUEUE is name, NUL, position (16 digits), holder. An `id` is name, NUL, holder.

local function id_of(name, holder)
  return name .. '\0' .. holder
end

local function place_of(id)
  local stored = redis.call('HGET', PLACES, id)
  if not stored then
    return nil
  end
  local position, till, seconds, turn, called, owner = string.match(stored, '^(%d+) (%d+) (%d+) (%d+) (%d) (.*)$')
  if not position then
    return nil
  end
  return {
    position = position, till = tonumber(till), seconds = tonumber(seconds), turn = tonumber(turn), called = called,
    owner = owner,
  }
end

local function put_place(name, holder, place)
  local id = id_of(name, holder)
  local stored = {place.position, text(place.till), text(place.seconds), text(place.turn), place.called, place.owner}
  put('HSET', PLACES, id, table.concat(stored, ' '))
  put('ZADD', QUEUE, 0, name .. '\0' .. place.position .. holder)
  put('ZADD', UNTIL, text(place.till), id)
end

local function drop_place(name, holder)
  local id = id_of(name, holder)
  local place = place_of(id)
  if place then
    redis.call('HDEL', PLACES, id)
    redis.call('ZREM', QUEUE, name .. '\0' .. place.position .. holder)
    redis.call('ZREM', UNTIL, id)
    redis.call('ZREM', SINCE, id)
  end
  return place ~= nil
end

-- Name and holder of an id; nothing if none of ours wrote it.
local function split(id)
  local at = string.find(id, '\0', 1, true)
  if at then
    return string.sub(id, 1, at - 1), string.sub(id, at + 1)
  end
end

-- The waiters for a name, in order.
local function waiting(name, offset, count)
  local found = redis.call('ZRANGEBYLEX', QUEUE, '[' .. name .. '\0', '(' .. name .. '\1', 'LIMIT', offset, count)
  for index, member in ipairs(found) do
    found[index] = string.sub(member, #name + 18)
  end
  return found
end

-- The places of these holders, as stored; false for a holder without a place.
local function places_of(name, holders)
  local ids = {}
  for index, holder in ipairs(holders) do
    ids[index] = id_of(name, holder)
  end
  return #ids > 0 and redis.call('HMGET', PLACES, unpack(ids)) or {}
end

local function count_of(name)
  return redis.call('ZLEXCOUNT', QUEUE, '[' .. name .. '\0', '(' .. name .. '\1')
end

local function ahead_of(name, holder, place)
  return redis.call('ZLEXCOUNT', QUEUE, '[' .. name .. '\0', '(' .. name .. '\0' .. place.position .. holder)
end

-- Delete lapsed places of all names. If the clock was set back, cut places to the time that was requested. What belongs
-- to no place goes, too: otherwise it would be in the way of the places that lapse later.
local function lapse_places()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', UNTIL, '-inf', text(now), 'LIMIT', 0, AT_ONCE)) do
    local name, holder = split(id)
    if not name or not drop_place(name, holder) then
      redis.call('ZREM', UNTIL, id)
      redis.call('ZREM', SINCE, id)
    end
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', SINCE, '(' .. text(now), '+inf', 'LIMIT', 0, AT_ONCE)) do
    local place, name, holder = place_of(id), split(id)
    if place and name then
      place.till = math.min(place.till, now + place.seconds)
      put_place(name, holder, place)
      put('ZADD', SINCE, text(now), id)
    else
      redis.call('ZREM', SINCE, id)
    end
  end
end

-- The first waiter, and whether it is known. Lapsed places are deleted from the front, a limited number per call. If
-- the first waiter is still unknown then, the script must decide nothing, and the client calls it again at once.
local function front(name)
  for _ = 1, AT_ONCE do
    local member = redis.call('ZRANGEBYLEX', QUEUE, '[' .. name .. '\0', '(' .. name .. '\1', 'LIMIT', 0, 1)[1]
    local holder = member and string.sub(member, #name + 18)
    local place = member and place_of(id_of(name, holder))
    if not member or (place and now < place.till) then
      return holder, true
    end
    if not drop_place(name, holder) then
      redis.call('ZREM', QUEUE, member)
    end
  end
  return nil, false
end

local function join(name, holder, owner, seconds, turn)
  local known = place_of(id_of(name, holder))
  if not known then
    if count_of(name) >= MOST_WAITING then
      return
    end
    local last = redis.call('ZREVRANGEBYLEX', QUEUE, '(' .. name .. '\1', '[' .. name .. '\0', 'LIMIT', 0, 1)[1]
    local position = math.max(now, (last and tonumber(string.sub(last, #name + 2, #name + 17)) or 0) + 1)
    known = {position = string.format('%016.0f', position)}
  end
  put_place(name, holder, {
    position = known.position, till = now + seconds, seconds = seconds, turn = turn, called = '0', owner = owner,
  })
  put('ZADD', SINCE, text(now), id_of(name, holder))
end

-- Call the first waiters, except those that were already called since they last asked.
local function call_first(channel, name, most)
  local told = {}
  for _, holder in ipairs(most > 0 and waiting(name, 0, most) or {}) do
    local place = place_of(id_of(name, holder))
    if place and place.called == '0' then
      if place.turn > 0 then
        place.till = math.min(place.till, now + place.turn)
      end
      place.called = '1'
      put_place(name, holder, place)
      told[#told + 1] = holder
    end
  end
  if #told > 0 then
    local called = '\0call\0' .. table.concat(told, '\0')
    redis.pcall('PUBLISH', channel, 'again\n0\n' .. #called .. '\n' .. called)
  end
end

-- Rows.

-- The row as it applies now, and its holder before it lapsed. A damaged row is an error, never a grant.
-- `stale`: the row differs from the saved one. Every step that decides something saves a stale row. Otherwise, if the
-- clock is set back later, lapsed values would become valid again, and values that are cut here would be longer again.
local function row_of(name)
  local stored = redis.call('HGET', ROWS, name)
  local row
  if stored then
    row = cjson.decode(stored)
    for _, field in ipairs(NUMBERS) do
      row[field] = tonumber(row[field])
    end
  else
    row = {holder = '', owner = '{}', asked_to_leave = '', run = '', queue = {}}
    for _, field in ipairs(NUMBERS) do
      row[field] = 0
    end
    row.last = tonumber(redis.call('HGET', LIFE, 'forgotten') or '0')
  end
  -- Processes of the previous version write neither field.
  row.witness, row.missing_since = row.witness or '', tonumber(row.missing_since or '0')
  local was_holder = row.holder
  row.stale = row.deadline > now + row.lease_ttl or row.rests_until > now + row.rest
    or (row.holder ~= '' and now >= row.deadline) or (row.rests_until ~= 0 and now >= row.rests_until)
  if row.holder ~= '' and now < row.deadline then
    row.deadline = math.min(row.deadline, now + row.lease_ttl)
  else
    row.holder, row.deadline, row.asked_to_leave, row.witness, row.missing_since = '', 0, '', '', 0
  end
  if row.missing_since > now then
    row.missing_since = 0
  end
  row.rests_until = row.rest > 0 and now < row.rests_until and math.min(row.rests_until, now + row.rest) or 0
  return row, was_holder
end

-- The previous version kept the queue in the row, and its processes may still run. Take over the first places. The
-- other waiters ask again within seconds and get a new place.
local function take_over_places(name, row)
  for index = 1, math.min(#row.queue, AT_ONCE) do
    local place = row.queue[index]
    local left = tonumber(place['until']) - now
    if left > 0 then
      join(name, place.holder, place.owner, math.min(left, tonumber(place.seconds)), 0)
    end
  end
  row.stale = row.stale or #row.queue > 0
  row.queue = {}
end

local function save(name, row)
  local over = math.max(row.deadline, row.rests_until, row.renewed_at, now)
  local stored = {
    holder = row.holder, owner = row.owner, asked_to_leave = row.asked_to_leave, run = row.run, queue = row.queue,
    witness = row.witness, missing_since = text(row.missing_since),
  }
  for _, field in ipairs(NUMBERS) do
    stored[field] = text(row[field])
  end
  if put('HSET', ROWS, name, cjson.encode(stored)) == 1 then
    put('HSET', LIFE, 'rows', '1')
  end
  put('ZADD', OLD, text(over + KEPT_US), name)
end

-- Forget names that were unused for a day, a few per call. Later tokens of these names start above all their tokens.
local function forget_some()
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', OLD, '-inf', text(now), 'LIMIT', 0, 5)) do
    -- A damaged row stays. It stops its own name, and no other one.
    local whole, row = pcall(cjson.decode, redis.call('HGET', ROWS, name) or '{"last":0}')
    local last = whole and type(row) == 'table' and tonumber(row.last)
    if last then
      local forgotten = math.max(last, tonumber(redis.call('HGET', LIFE, 'forgotten') or '0'))
      put('HSET', LIFE, 'forgotten', text(forgotten))
      redis.call('HDEL', ROWS, name)
    end
    redis.call('ZREM', OLD, name)
  end
end

-- The current life of the server, and for how long it is known to last (microseconds). The data may come from an
-- earlier life, or from the former master of this replica. Then some of the last writes may be missing. A promoted
-- server begins a new life, even if it was the master before: its replication id changes.
-- `asked_before`: an earlier answer wrote the mark in LIFE. If that mark is missing now, the rows are lost, too.
-- The field `rows` of LIFE says that ROWS has rows. It never gets empty by itself, because a name is forgotten only when
-- another one was saved. So if ROWS is missing then, it was evicted or deleted. Rows of older versions get the mark here.
local function life(asked_before)
  local info = redis.call('INFO', 'server', 'replication')
  local run = string.match(info, 'run_id:(%w+)') .. '.' .. (string.match(info, 'master_replid:(%w+)') or '')
  local uptime = tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  local known, kept = redis.call('HMGET', LIFE, 'run', 'since', 'rows'), redis.call('EXISTS', ROWS) == 1
  local since, lost = tonumber(known[2] or '0'), known[3] == '1' and not kept
  if known[1] ~= run or lost then
    since = (known[1] or asked_before) and now or now - uptime * 1000000
    put('HSET', LIFE, 'run', run, 'since', text(since))
  elseif since > now then
    since = now
    put('HSET', LIFE, 'since', text(since))
  end
  if (known[3] == '1') ~= kept then
    put('HSET', LIFE, 'rows', kept and '1' or '0')
  end
  return run, now - since
end

-- The server has forgotten the grant of this token. So it may also have forgotten leases whose holders still believe.
-- A token is at least as large as the time of its grant. A token from before this life says nothing new.
local function forgotten(token)
  local _, lasted = life()
  if token > now - lasted then
    put('HSET', LIFE, 'since', text(now))
  end
end

-- An acquirer checks the holder's witness. If it was missing for GONE_FOR, the lease is free. This counts only in the
-- life of the server in which the row was last confirmed: after a restart, no client has reconnected yet.
local function doubt(row)
  if row.witness == '' then
    return
  end
  local missing = 0
  local heard = redis.pcall('PUBSUB', 'NUMSUB', row.witness)
  if type(heard) == 'table' and heard.err == nil and heard[2] == 0 and row.run == life() then
    missing = row.missing_since > 0 and row.missing_since or now
  end
  row.stale = row.stale or missing ~= row.missing_since
  row.missing_since = missing
  if missing > 0 and now - missing >= GONE_FOR then
    row.holder, row.deadline, row.asked_to_leave, row.witness, row.missing_since = '', 0, '', '', 0
    row.stale = true
  end
end

local function extend(row, lease_ttl, witness)
  row.lease_ttl = math.max(row.lease_ttl, lease_ttl)
  row.renewed_at = now
  row.deadline = math.max(row.deadline, now + lease_ttl)
  row.witness, row.missing_since = witness, 0
end

-- Call this last: a script must not write after it.
local function tell_freed(channel, name, token)
  redis.pcall('PUBLISH', channel, 'again\n' .. text(token) .. '\n' .. #name .. '\n' .. name)
end
