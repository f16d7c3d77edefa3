-- unpend: forgets a pending hold. KEYS n. ARGV packed epoch and reserved-at, id. Reply: '\0' done, '\1' it is not there.
local epoch, at = unpack_('<i8i8', ARGV[1])
local v = call('HMGET', KEYS[1], '{e', ARGV[2])
if not v[2] or unpack_('<d', v[1]) ~= epoch or unpack_('<d', v[2]) ~= at then return '\1' end
call('HDEL', KEYS[1], ARGV[2])
return '\0'
