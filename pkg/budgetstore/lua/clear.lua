-- clear: removes what an earlier epoch left of a tenant. KEYS s, then whichever keys of the tenant were found. ARGV packed
-- epoch and generation. Reply: '\0' done.
local epoch, generation = unpack_('<i8i8', ARGV[1])
local barred = fence(KEYS[1], epoch, generation)
if barred then return barred end
call('UNLINK', unpack(KEYS))
return '\0'
