-- journal: applies what the journal says of reservations, each entry once. KEYS s r. ARGV epoch (i8), seconds and ms
-- that an ended id is remembered, TTL of a new execution (ms), test clock, then packed entry, id, root for each entry.
-- Reply: '\0' and how many entries changed something.
local S = call('GET', KEYS[1])
if not S then return '\10' end
local t = load(S)
if t[1] ~= unpack_('<i8', ARGV[1]) then return '\12' end
local prefix = sub(KEYS[1], 1, -2)
local now = clock(ARGV[5], 0)
local until_ = floor(now / 1000000) + tonumber(ARGV[2])
local offset, changed = unpack_('<d', S, COLD_AT), 0

local function add(day, month, at, nano, tin, tout, root)
  if slot(t, 13, 24, 28, day) then own(t, 13, 24, 28, day, nano, 0) end
  if slot(t, 17, 32, 36, month) then own(t, 17, 32, 36, month, nano, 0) end
  if at <= now then
    advance(t, KEYS[2], at)
    charge(t, KEYS[2], floor(at / 1000000), 1, tin, tout, nano)
  end
  if root ~= '' and call('EXISTS', prefix .. 'x:' .. root) == 0 then
    call('SET', prefix .. 'x:' .. root, pack('<ddddddddddd', 0, 0, 0, 0, 0, 0, 0, MAX, MAX, MAX, 0), 'PX', ARGV[4])
  end
  spent(prefix, root, nano, 0)
end

for i = 6, #ARGV, 3 do
  local id, root = ARGV[i + 1], ARGV[i + 2]
  local o, kind, at, day, month, nano, tin, tout, hash = unpack_('<i8i8i8i8i8i8i8i8c8', ARGV[i])
  if o >= offset then
    local h = find(t, prefix, id)
    if h and h.at == at then
      if kind == 2 then nano, tin, tout = 0, 0, 0 end
      finish(t, prefix, id, h, nano, tin, tout, hash, until_, ARGV[3])
      changed = changed + 1
    elseif kind == 1 then
      add(day, month, at, nano, tin, tout, root)
      changed = changed + 1
    end
    offset = o + 1
  end
end
save(KEYS[1], t)
call('SETRANGE', KEYS[1], COLD_AT - 1, pack('<d', offset))
return pack('<Bi8', 0, changed)
