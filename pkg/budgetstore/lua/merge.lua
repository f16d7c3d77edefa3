-- merge: makes open holds of the pending ones (see pend.lua) in counters that base has made. KEYS s n. ARGV packed epoch and
-- generation, TTL of a new execution (ms), test clock. Reply: '\0' and how many.
local epoch, generation = unpack_('<i8i8', ARGV[1])
local barred = fence(KEYS[1], epoch, generation)
if barred then return barred end
local s, prefix = KEYS[1], sub(KEYS[1], 1, -2)
local t = load(s)
if not t or t[1] ~= epoch then return '\10' end
local now, merged = clock(ARGV[3], 0), 0
local run, counted = cold(t)[33], {}
local pending = call('HGETALL', KEYS[2])
local of
for i = 1, #pending, 2 do
  if pending[i] == '{e' then of = unpack_('<d', pending[i + 1]) end
end
if of ~= epoch then return pack('<Bi8', 0, 0) end

-- Counts a hold in a root, which then is a field of s, or in a branch.
local function execute(name, nano, hot)
  local old = execution(prefix, name)
  local x = old or unknown()
  x[1], x[2], x[3] = bounded(x[1] + nano), x[2] + nano, x[3] + 1
  if now > x[12] then x[12] = now end
  if not old and hot then enrol(prefix .. 'v:r', name, now, tonumber(ARGV[2])) end
  if not old then keep(prefix, name, x, false, ARGV[2]) end
  if old or hot then keep(prefix, name, x, hot) end
end

for i = 1, #pending, 2 do
  local id = pending[i]
  if sub(id, 1, 1) ~= '{' and call('HEXISTS', s, id) == 0 then
    local at, day = unpack_('<dI4', pending[i + 1])
    local kept = sub(pending[i + 1], 17)
    local nano, tin, tout, ends = unpack_('<dddd', kept)
    local root = sub(kept, ROOT_AT + 1, ROOT_AT + unpack_('<B', kept, ROOT_AT))
    if t[21] == 0 or ends < t[22] then t[22] = ends end
    t[21] = t[21] + 1
    if day > t[13] then turn(t, day, floor(day / 100)) end
    own(t, day, nano, nano, true)
    charge(t, floor(at / 1000000), 1, tin, tout, nano)
    for _, name in ipairs(scopesOf(kept)) do
      local of = branch(name)
      if of then
        execute(of, nano, false)
      else
        local u = counted[name] or made(prefix, epoch, name, run, now)
        counted[name] = u
        if day > u[13] then turn(u, day, floor(day / 100)) end
        own(u, day, nano, nano, true)
        charge(u, floor(at / 1000000), 1, tin, tout, nano)
      end
    end
    if root ~= '' then execute(root, nano, true) end
    -- What a repeat of the reservation is told is made from this: the figures of now, in the place of those of then.
    local head = pack(NOW, at, t[9], t[10], t[11], t[12], day, nano, 0, nano, 0, t[21], t[22]) .. t.told
    call('HSET', s, id, kept, '{h' .. id, head)
    merged = merged + 1
  end
end
for _, u in pairs(counted) do saveScope(u, now) end
save(t)
return pack('<Bi8', 0, merged)
