-- execution: starts or resumes a root execution, lowers its limits, revokes or closes it. KEYS s x. ARGV epoch (i8),
-- verb (start revoke close show), packed limits, TTL (ms). Reply: '\0' and its figures, '\1' if it is not known.
local S = call('GET', KEYS[1])
if not S then return '\10' end
if unpack_('<d', S) ~= unpack_('<i8', ARGV[1]) then return '\12' end
local verb = ARGV[2]
local X = call('GET', KEYS[2])
if not X and (verb == 'show' or verb == 'close') then return '\1' end
local x = X and { unpack_('<ddddddddddd', X) } or { 0, 0, 0, 0, 0, 0, 0, MAX, MAX, MAX, 0 }
if verb == 'start' then
  local cost, depth, calls = unpack_('<i8i8i8', ARGV[3])
  x[4], x[6] = 1, 0
  x[8], x[9], x[10] = math.min(x[8], cost), math.min(x[9], depth), math.min(x[10], calls)
elseif verb == 'revoke' then
  x[5] = 1
elseif verb == 'close' then
  x[6] = 1
end
if verb ~= 'show' then
  local bytes = pack('<ddddddddddd', unpack(x, 1, 11))
  if X then call('SETRANGE', KEYS[2], 0, bytes) else call('SET', KEYS[2], bytes, 'PX', ARGV[4]) end
end
return pack('<Bi8i8i8i8i8i8i8i8i8i8', 0, unpack(x, 1, 10))
