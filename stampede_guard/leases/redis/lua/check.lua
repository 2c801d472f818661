-- ARGV: name, holder, token
local row = row_of(ARGV[1])
return ARGV[2] ~= '' and row.holder == ARGV[2] and row.token == tonumber(ARGV[3]) and 1 or 0
