-- Stands before every script of the leases. KEYS of a namespace, always in this order and in one slot:
-- 1 rows (a hash: name -> JSON), 2 when rows may be forgotten (sorted set), 3 what is known of the server's life (hash),
-- 4 what operators did (list), 5 who waits, in order (sorted set of name, position, holder), 6 their places (a hash: name
-- and holder -> place), 7 when places lapse and 8 when they were last asked for (sorted sets of name and holder).
-- No key has a time to live: what could be evicted is what has one.
-- The rules are those of leases/core/grants.py. Numbers in a row are microseconds or tokens, written as text: cjson would
-- round them. A step reads and writes a bounded number of places, however many wait.
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

-- Places. A member of QUEUE is name, NUL, position (16 digits), holder; `id` is name, NUL, holder.

local function id_of(name, holder)
  return name .. '\0' .. holder
end

local function place_of(id)
  local stored = redis.call('HGET', PLACES, id)
  if not stored then
    return nil
  end
  local position, till, seconds, turn, called, owner = string.match(stored, '^(%d+) (%d+) (%d+) (%d+) (%d) (.*)$')
  return {
    position = position, till = tonumber(till), seconds = tonumber(seconds), turn = tonumber(turn), called = called,
    owner = owner,
  }
end

local function put_place(name, holder, place)
  local id = id_of(name, holder)
  local stored = {place.position, text(place.till), text(place.seconds), text(place.turn), place.called, place.owner}
  redis.call('HSET', PLACES, id, table.concat(stored, ' '))
  redis.call('ZADD', QUEUE, 0, name .. '\0' .. place.position .. holder)
  redis.call('ZADD', UNTIL, text(place.till), id)
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

local function split(id)
  local at = string.find(id, '\0', 1, true)
  return string.sub(id, 1, at - 1), string.sub(id, at + 1)
end

-- The holders that wait for a name, in their order.
local function waiting(name, offset, count)
  local found = redis.call('ZRANGEBYLEX', QUEUE, '[' .. name .. '\0', '(' .. name .. '\1', 'LIMIT', offset, count)
  for index, member in ipairs(found) do
    found[index] = string.sub(member, #name + 18)
  end
  return found
end

-- The places of these holders, as they are stored; false where there is none.
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

-- What has lapsed goes, of whatever name; and a clock that was set back makes no place last longer than was asked for.
local function lapse_places()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', UNTIL, '-inf', text(now), 'LIMIT', 0, AT_ONCE)) do
    drop_place(split(id))
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', SINCE, '(' .. text(now), '+inf', 'LIMIT', 0, AT_ONCE)) do
    local place = place_of(id)
    if place then
      place.till = math.min(place.till, now + place.seconds)
      local name, holder = split(id)
      put_place(name, holder, place)
    end
    redis.call('ZADD', SINCE, text(now), id)
  end
end

-- Who waits first, and whether that is known: places that have lapsed go from the front, some at a time. Otherwise nothing is
-- to be decided, and whoever asks comes again at once.
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
    local position = last and math.max(now, tonumber(string.sub(last, #name + 2, #name + 17)) + 1) or now
    known = {position = string.format('%016.0f', position)}
  end
  put_place(name, holder, {
    position = known.position, till = now + seconds, seconds = seconds, turn = turn, called = '0', owner = owner,
  })
  redis.call('ZADD', SINCE, text(now), id_of(name, holder))
end

-- Those whose turn this may be, and have not been called since they last asked.
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

-- The row as it is to be read now, and who held it before it lapsed. A damaged one is an error, never a grant.
-- `stale`: it is not as it was saved, and every step that decides something saves it: a clock that is set back later must
-- not bring back what had lapsed, nor prolong what is cut here to what was asked for.
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
  -- A process of the version before knows neither, and leaves them out.
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

-- The version before kept the queue in the row, and its processes may still be there: the first places are taken over. Who
-- has one of the others comes again by itself, within seconds, and gets another.
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
  redis.call('HSET', ROWS, name, cjson.encode(stored))
  redis.call('ZADD', OLD, text(over + KEPT_US), name)
end

-- Names that nobody has used for a day, some at a time. Their tokens go on behind the largest of them.
local function forget_some()
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', OLD, '-inf', text(now), 'LIMIT', 0, 5)) do
    local forgotten = math.max(tonumber(cjson.decode(redis.call('HGET', ROWS, name) or '{"last":0}').last), tonumber(redis.call('HGET', LIFE, 'forgotten') or '0'))
    redis.call('HSET', LIFE, 'forgotten', text(forgotten))
    redis.call('HDEL', ROWS, name)
    redis.call('ZREM', OLD, name)
  end
end

-- Which life of the server this is, and how long it has been known to last (microseconds). Its data may be those of an
-- earlier life, or of the master that this one was a replica of: then some of the last writes may be missing. A server
-- that is promoted begins another life, also one that had been the master before: its replication id is another one.
-- `asked_before`: so this mark was there; where it has gone, the rows have, whatever the server's life.
local function life(asked_before)
  local info = redis.call('INFO', 'server', 'replication')
  local run = string.match(info, 'run_id:(%w+)') .. '.' .. (string.match(info, 'master_replid:(%w+)') or '')
  local uptime = tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  local known = redis.call('HMGET', LIFE, 'run', 'since')
  local since = tonumber(known[2] or '0')
  if known[1] ~= run then
    since = (known[1] or asked_before) and now or now - uptime * 1000000
    redis.call('HSET', LIFE, 'run', run, 'since', text(since))
  elseif since > now then
    since = now
    redis.call('HSET', LIFE, 'since', text(since))
  end
  return run, now - since
end

-- A grant of this token was forgotten, so others may be that are believed in. A token is as large as the time of its grant
-- or larger: one from before this life began is no news.
local function forgotten(token)
  local _, lasted = life()
  if token > now - lasted then
    redis.call('HSET', LIFE, 'since', text(now))
  end
end

-- Somebody else looks for the holder's process: where that has been gone for long enough the lease is free. Only in the
-- life of the server in which it was last heard of: after a restart nobody is connected yet.
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

-- Nothing may be written after this.
local function tell_freed(channel, name, token)
  redis.pcall('PUBLISH', channel, 'again\n' .. text(token) .. '\n' .. #name .. '\n' .. name)
end
