-- finish: settle, release or expire one hold. KEYS s. ARGV packed request, id, mode ('keep' leaves the estimate
-- counted), seconds that the id is remembered, test clock. Reply: '\0' and what it held, '\1' if it is not there.
local epoch, at, nano, tin, tout, hash = unpack_('<i8i8i8i8i8c6', ARGV[1])
local f = call('HMGET', KEYS[1], '{', ARGV[2], '{h' .. ARGV[2], '{d', '{f') -- all at once: calls of Redis are what it costs
if not f[1] then return '\10' end
local t, prefix = parse(KEYS[1], f[1]), sub(KEYS[1], 1, -2)
if t[1] ~= epoch then return '\12' end
t.fields['{d'], t.fields['{f'] = f[4] or '', f[5] or ''
local h = found(t, prefix, ARGV[2], f[2], f[3])
if not h or h.at ~= at then return '\1' end
if ARGV[3] == 'keep' then nano, tin, tout = h.nano, h.tin, h.tout end
local now = clock(ARGV[5], 0)
local until_ = floor(now / 1000000) + tonumber(ARGV[4])
finish(t, prefix, ARGV[2], h, nano, tin, tout, hash, until_, now)
save(t)
return pack('<Bi8i8i8', 0, h.nano, h.tin, h.tout)
