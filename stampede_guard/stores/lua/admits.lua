-- ARGV: token, epoch. Answers whether a value with them could be stored, apart from a newer value.
local record = fields(KEYS[RECORD], 'epoch', 'fence')
if record[1] == ARGV[2] and tonumber(ARGV[1]) >= tonumber(record[2] or 0) then
  return 1
end
return 0
