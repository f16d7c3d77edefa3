-- hold: reads one hold. KEYS s h. ARGV epoch (i8). Reply: '\0' and the hold's bytes, '\1' if it is not there.
local S, H = unpack(call('MGET', KEYS[1], KEYS[2]))
if not S then return '\10' end
if unpack_('<d', S) ~= unpack_('<i8', ARGV[1]) then return '\12' end
if not H then return '\1' end
return '\0' .. H
