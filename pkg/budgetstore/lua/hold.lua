-- hold: reads one hold. KEYS s h e. ARGV epoch (i8), id. Reply: '\0' and the hold's bytes, '\1' if it is not there.
local S = call('GET', KEYS[1])
if not S then return '\10' end
if unpack_('<d', S) ~= unpack_('<i8', ARGV[1]) then return '\12' end
local H = call('HGET', KEYS[2], ARGV[2]) or call('HGET', KEYS[3], ARGV[2])
if not H then return '\1' end
return '\0' .. H
