-- ARGV: name of the tag, channel of changes.
-- For every process, a tag without a version has changed. A server that is out of memory still allows a deletion.
redis.call('DEL', KEYS[VALUE])
outdate_copies(ARGV[2], ARGV[1], now_us())
