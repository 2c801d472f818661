-- ARGV: slot, run, alive for (us), token
local run = load_run(tonumber(ARGV[1]))
if not ours(run, ARGV[2]) then
  return 0
end
run.alive_until = math.max(run.alive_until, now + tonumber(ARGV[3]))
run.token = math.max(run.token, tonumber(ARGV[4]))
save_run(run)
return 1
