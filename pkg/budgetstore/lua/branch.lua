-- branch: makes what a child agent and its descendants may spend, nothing spent yet (see executions.lua). KEYS s. ARGV packed
-- epoch, limit (nano-dollars), how long it lives (ms) and how many may live at a time, its id, its root, test clock. Reply:
-- '\0' and a byte, 1 if the root was revoked, then nothing is made; '\1' too many live.
-- Set v:x has the ids of those that live, by when they end (ms). After a recovery those that were made before come back to it
-- with their next call (branched.lua), whatever room there is.
local epoch, limit, life, most = unpack_('<i8i8i8i8', ARGV[1])
local S = call('HGET', KEYS[1], '{')
if not S then return '\10' end
if not current(S, epoch) then return '\12' end
if unpack_('<d', S) < 0 then return '\11' end
local prefix = sub(KEYS[1], 1, -2)
local root = execution(prefix, ARGV[3])
if root and root[5] == 1 then return '\0\1' end
if not enrol(prefix .. 'v:x', ARGV[2], clock(ARGV[4], 0), life, most) then return '\1' end
local x = unknown()
x[4], x[8] = 1, limit
keep(prefix, '{' .. ARGV[2], x, false, string.format('%.0f', life))
return '\0\0'
