-- finish: settle, release or expire one hold. KEYS s. ARGV packed request, id, mode ('keep' leaves the estimate
-- counted), seconds that the id is remembered, test clock. Reply: '\0' and what it held, '\1' if it is not there.
local epoch, at, nano, tin, tout, hash = unpack_('<i8i8i8i8i8c6', ARGV[1])
local t = load(KEYS[1])
if not t then return '\10' end
if t[1] ~= epoch then return '\12' end
local prefix = sub(KEYS[1], 1, -2)
local h = find(t, prefix, ARGV[2])
if not h or h.at ~= at then return '\1' end
if ARGV[3] == 'keep' then nano, tin, tout = h.nano, h.tin, h.tout end
local now = clock(ARGV[5], 0)
local until_ = floor(now / 1000000) + tonumber(ARGV[4])
finish(t, prefix, ARGV[2], h, nano, tin, tout, hash, until_, now)
save(t)
return pack('<Bi8i8i8', 0, h.nano, h.tin, h.tout)
