-- hold: reads one hold. KEYS s e. ARGV epoch (i8), id. Reply: '\0', whether it is expiring (one byte) and the hold's bytes, '\1' if it is not there.
local S = call('HGET', KEYS[1], '{')
if not S then return '\10' end
if not current(S, unpack_('<i8', ARGV[1])) then return '\12' end
local f = call('HMGET', KEYS[1], '{h' .. ARGV[2], ARGV[2])
if f[1] then return '\0\0' .. f[1] .. f[2] end
local H = call('HGET', KEYS[2], ARGV[2])
if H then return '\0\1' .. H end
return '\1'
