-- ARGV: name of the tag, channel of changes.
-- A tag without a version has changed for everybody. A deletion is never denied for want of memory.
redis.call('DEL', KEYS[VALUE])
outdate_copies(ARGV[2], ARGV[1], now_us())
