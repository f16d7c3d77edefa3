-- base_executions: what the journal adds up to for root executions, in place of whatever was known of them. KEYS s. ARGV
-- packed epoch and generation, TTL (ms), test clock, then for each: packed own, external, calls, version of external and when it
-- was last used (µs), and its root. There are no more of them than there are places. Limits and revocations come after.
-- Reply: '\0' done.
local epoch, generation = unpack_('<i8i8', ARGV[1])
local barred = fence(KEYS[1], epoch, generation)
if barred then return barred end
local S = call('HGET', KEYS[1], '{')
if not S or not current(S, epoch) then return '\10' end
local prefix = sub(KEYS[1], 1, -2)
local now = clock(ARGV[3], 0)
for i = 4, #ARGV, 2 do
  local nano, external, calls, version, used = unpack_('<i8i8i8i8i8', ARGV[i])
  local x = unknown()
  x[1], x[3], x[7], x[11], x[12] = nano, calls, external, version, used
  if sub(ARGV[i + 1], 1, 1) ~= '{' then enrol(prefix .. (nano ~= 0 and 'v:r' or 'v:u'), ARGV[i + 1], now, tonumber(ARGV[2])) end
  keep(prefix, ARGV[i + 1], x, false, ARGV[2])
end
return '\0'
