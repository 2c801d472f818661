-- Stands before every script of the leases. KEYS of a namespace, always in this order and in one slot:
-- 1 rows (a hash: name -> JSON), 2 when rows may be forgotten (sorted set), 3 what is known of the server's life (hash),
-- 4 what operators did (list). No key has a time to live: what could be evicted is what has one.
-- The rules are those of leases/core/grants.py. Numbers in a row are microseconds or tokens, written as text: cjson would
-- round them.
local ROWS, OLD, LIFE, AUDITS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local NUMBERS = {'last', 'token', 'lease_ttl', 'granted_at', 'renewed_at', 'deadline', 'rest', 'rests_until'}
local KEPT_US = 86400000000
local MOST_WAITING = 1000

local function text(number)
  return string.format('%.0f', number)
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

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
  local was_holder = row.holder
  row.stale = row.deadline > now + row.lease_ttl or row.rests_until > now + row.rest
    or (row.holder ~= '' and now >= row.deadline) or (row.rests_until ~= 0 and now >= row.rests_until)
  if row.holder ~= '' and now < row.deadline then
    row.deadline = math.min(row.deadline, now + row.lease_ttl)
  else
    row.holder, row.deadline, row.asked_to_leave = '', 0, ''
  end
  row.rests_until = row.rest > 0 and now < row.rests_until and math.min(row.rests_until, now + row.rest) or 0
  local queue = {}
  for _, place in ipairs(row.queue) do
    place['until'], place.seconds = tonumber(place['until']), tonumber(place.seconds)
    if now < place['until'] then
      row.stale = row.stale or place['until'] > now + place.seconds
      place['until'] = math.min(place['until'], now + place.seconds)
      queue[#queue + 1] = place
    end
  end
  row.stale = row.stale or #queue < #row.queue
  row.queue = queue
  return row, was_holder
end

local function save(name, row)
  local over = math.max(row.deadline, row.rests_until, row.renewed_at, now)
  local queue = {}
  for index, place in ipairs(row.queue) do
    over = math.max(over, place['until'])
    queue[index] = {
      holder = place.holder, owner = place.owner, ['until'] = text(place['until']), seconds = text(place.seconds),
    }
  end
  local stored = {
    holder = row.holder, owner = row.owner, asked_to_leave = row.asked_to_leave, run = row.run, queue = queue,
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
    local forgotten = math.max(row_of(name).last, tonumber(redis.call('HGET', LIFE, 'forgotten') or '0'))
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

local function position(queue, holder)
  for index, place in ipairs(queue) do
    if place.holder == holder then
      return index
    end
  end
  return #queue + 1
end

local function without(queue, holder)
  local rest = {}
  for _, place in ipairs(queue) do
    if place.holder ~= holder then
      rest[#rest + 1] = place
    end
  end
  return rest
end

local function extend(row, lease_ttl)
  row.lease_ttl = math.max(row.lease_ttl, lease_ttl)
  row.renewed_at = now
  row.deadline = math.max(row.deadline, now + lease_ttl)
end

-- Nothing may be written after this.
local function tell_freed(channel, name, token)
  redis.pcall('PUBLISH', channel, 'again\n' .. text(token) .. '\n' .. #name .. '\n' .. name)
end
