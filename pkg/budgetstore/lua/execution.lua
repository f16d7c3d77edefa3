-- execution: starts or resumes a root execution, lowers its limits, revokes or closes it. KEYS s. ARGV epoch (i8),
-- verb (room start revoke close show), packed limits, TTL (ms), root, test clock. Reply: '\0' and its figures, '\1' if it is not
-- known, '\2' if there is no place for one more (see executions.lua); then nothing has changed. room says what start would.
local S = call('HGET', KEYS[1], '{')
if not S then return '\10' end
if not current(S, unpack_('<i8', ARGV[1])) then return '\12' end
local verb = ARGV[2]
local prefix, root = sub(KEYS[1], 1, -2), ARGV[5]
local old, hot = execution(prefix, root)
if not old and (verb == 'show' or verb == 'close') then return '\1' end
local x, ttl = old or unknown(), not old and ARGV[4]
if verb == 'room' then
  return (x[4] == 1 or fits(prefix .. 'v:r', root, clock(ARGV[6], 0), ROOTS)) and '\0' or '\2'
end
local function room(set, most) return enrol(prefix .. 'v:' .. set, root, clock(ARGV[6], 0), tonumber(ARGV[4]), most) end
if verb == 'start' and x[4] == 0 then -- known or not, it begins now
  if not room('r', ROOTS) then return '\2' end
  call('ZREM', prefix .. 'v:u', root)
  ttl = ARGV[4]
elseif verb == 'revoke' and not old and not room('u', 2 * ROOTS) then
  return '\2'
end
if verb == 'start' then
  local cost, depth, calls = unpack_('<i8i8i8', ARGV[3])
  x[4], x[6] = 1, 0
  x[8], x[9], x[10] = math.min(x[8], cost), math.min(x[9], depth), math.min(x[10], calls)
elseif verb == 'revoke' then
  x[5] = 1
  shut(prefix, root, x)
elseif verb == 'close' then
  x[6] = 1
  shut(prefix, root, x)
end
if verb ~= 'show' then keep(prefix, root, x, hot, ttl) end
return pack('<Bi8i8i8i8i8i8i8i8i8i8', 0, unpack(x, 1, 10))
