-- journal: applies what the journal says of reservations, each entry once. KEYS s. ARGV epoch (i8), seconds
-- that an ended id is remembered, TTL of a new execution (ms), test clock, then packed entry, id, root for each entry.
-- Reply: '\0' and how many entries changed something.
local t = load(KEYS[1])
if not t then return '\10' end
if t[1] ~= unpack_('<i8', ARGV[1]) then return '\12' end
local prefix = sub(KEYS[1], 1, -2)
local now = clock(ARGV[4], 0)
local until_ = floor(now / 1000000) + tonumber(ARGV[2])
local C = call('HGET', KEYS[1], '{c')
local offset, changed = unpack_('<d', C), 0

local function add(day, month, at, nano, tin, tout, root)
  if slot(t, 13, 24, 28, day) then own(t, 13, 24, 28, day, nano, 0) end
  if slot(t, 17, 32, 36, month) then own(t, 17, 32, 36, month, nano, 0) end
  if at <= now then
    advance(t, KEYS[1], at)
    charge(t, KEYS[1], floor(at / 1000000), 1, tin, tout, nano)
  end
  if root ~= '' and not execution(prefix, root) then
    keep(prefix, root, unknown(), false, ARGV[3])
  end
  spend(prefix, root, nano, 0, 0)
end

for i = 5, #ARGV, 3 do
  local id, root = ARGV[i + 1], ARGV[i + 2]
  local o, kind, at, day, month, nano, tin, tout, hash = unpack_('<i8i8i8i8i8i8i8i8c6', ARGV[i])
  if o >= offset then
    local h = find(t, prefix, id)
    if h and h.at == at then
      if kind == 2 then nano, tin, tout = 0, 0, 0 end
      finish(t, prefix, id, h, nano, tin, tout, hash, until_, now)
      changed = changed + 1
    elseif kind == 1 then
      add(day, month, at, nano, tin, tout, root)
      changed = changed + 1
    end
    offset = o + 1
  end
end
save(KEYS[1], t)
call('HSET', KEYS[1], '{c', pack('<d', offset) .. sub(C, 9))
return pack('<Bi8', 0, changed)
