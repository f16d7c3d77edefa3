-- journal: applies what the journal says of reservations, each entry once. KEYS s. ARGV packed epoch and the generation of
-- whoever makes the counters (see fence.lua; 0: they are in use), seconds that an ended id is remembered, TTL of a new
-- execution (ms), test clock, then for each entry: packed, id, root, and the sub-scopes it counts in (each: length byte, '*'
-- or '.', name). Reply: '\0' and how many entries changed something, then of each that ended a hold by its own amount: its place
-- (a byte, from 0) and what was held (a double); '\1' if they are in use, but are to be made.
local epoch, generation = unpack_('<i8i8', ARGV[1])
local t = load(KEYS[1])
if not t then return '\10' end
if t[1] ~= epoch then return '\12' end
if generation > 0 then -- of two that make them, each begins at the base's offset: entries of the one would hide the other's
  if t[2] == 1 then return '\1' end
  if cold(t)[32] ~= generation then return '\15' end
end
local prefix = sub(KEYS[1], 1, -2)
local now = clock(ARGV[4], 0)
local until_ = floor(now / 1000000) + tonumber(ARGV[2])
local offset, changed, held = unpack_('<d', get(t, '{c')), 0, ''

local function add(u, day, at, nano, tin, tout)
  own(u, day, nano, 0, true)
  if at <= now or at <= t[4] then -- a clock that went back hides nothing that was admitted
    advance(u, at)
    charge(u, floor(at / 1000000), 1, tin, tout, nano)
  end
end

local function execute(name, nano, calls)
  if name ~= '' and not execution(prefix, name, t) then -- it was reserved in, so it was started
    enrol(prefix .. 'v:r', name, now, tonumber(ARGV[3]))
    keep(prefix, name, unknown(), false, ARGV[3])
  end
  spend(prefix, name, nano, 0, 0, t, calls)
end

-- Adds an amount that no script has applied.
local function journal(day, at, nano, tin, tout, calls, root, scopes)
  add(t, day, at, nano, tin, tout)
  local p = 1
  while p < #scopes do
    local size = unpack_('<B', scopes, p)
    local name = sub(scopes, p + 2, p + size)
    local of = branch(name)
    if of then
      execute(of, nano, 0)
    else
      local u = scope(prefix, t[1], name, sub(scopes, p + 1, p + 1) == '*', now)
      add(u, day, at, nano, tin, tout)
      saveScope(u, now)
    end
    p = p + 1 + size
  end
  execute(root, nano, calls)
end

for i = 5, #ARGV, 4 do
  local id, root = ARGV[i + 1], ARGV[i + 2]
  local o, kind, at, day, nano, tin, tout, calls, hash = unpack_('<i8i8i8i8i8i8i8i8c6', ARGV[i])
  if o >= offset then
    local h = find(t, prefix, id)
    if h and h.at == at then
      if kind == 2 then nano, tin, tout = 0, 0, 0 else held = held .. pack('<Bd', (i - 5) / 4, h.nano) end
      finish(t, prefix, id, h, nano, tin, tout, hash, until_, now)
      changed = changed + 1
    elseif kind == 1 then
      journal(day, at, nano, tin, tout, calls, root, ARGV[i + 3])
      changed = changed + 1
    end
    offset = o + 1
  end
end
put(t, '{c', pack('<d', offset) .. sub(get(t, '{c'), 9))
save(t)
return pack('<Bi8', 0, changed) .. held
