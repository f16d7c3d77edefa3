-- extend: moves the lease of an open hold and grows it to at least what is asked. KEYS s. ARGV packed request, id,
-- test clock, the ceilings of its branches and sub-scopes (each: doubles of minute, day, month, of a branch its limit; length
-- byte, name). Reply: '\0', lease end and what is held; '\1' not open; a refusal means stop.
local epoch, at, caller, lease, nano, tin, tout, li, lo, nc, dc, mc = unpack_('<i8i8i8i8i8i8i8i8i8i8i8i8', ARGV[1])
local t = load(KEYS[1])
if not t then return '\10' end
if t[1] ~= epoch then return '\12' end
if t[2] ~= 1 then return '\11' end
local now = clock(ARGV[3], t[4] + 1)
local prefix = sub(KEYS[1], 1, -2)
local h = find(t, prefix, ARGV[2])
if not h or h.at ~= at or not h.open or h.ends <= now then return '\1' end
if now - caller > 2000000 or now - caller < -2000000 then return '\13' end
local second = floor(now / 1000000)

-- What is used of the windows of the reservation, day before month, and what of it is own; nil for one that is not kept.
local function windows(u)
  local down, dx, mown, mx
  if h.day == u[13] then down, dx = u[14], u[16] else down, dx = dayAt(u, number(h.day)) end
  if rolling(u[17]) then
    if number(h.day) >= number(u[17]) - 30 then mown, mx = u[18], u[20] end
  else
    local m, b = floor(h.day / 100), months(u)
    local i = b[1] == m and 1 or b[5] == m and 5
    if m == u[17] then mown, mx = u[18], u[20] elseif i then mown, mx = b[i + 1], b[i + 3] end
  end
  return down, dx, mown, mx
end
local down, dx = windows(t)
local dused = down and down + dx or 0
local function stop(code, limit, window, used, asked, ceiling, index)
  return pack('<BBBi8i8i8i8i8i8i8B', 2, code, limit, now, 0, window, used, asked, ceiling, dused, index or 0)
end

-- The first of the dollar windows of a state that growth does not fit.
local function full(u, nano, mc, dc, nc, index)
  local down, dx, mown, mx = windows(u)
  local open, sq, si, so, sn = floor(u[4] / 1000000), u[9], u[10], u[11], u[12]
  if second > open then sq, si, so, sn = roll(reader(u), open, second, u[5], u[6], u[7], u[8], sq, si, so, sn) end
  local nused = sn + minutes(u.key, second)
  if mown and (mown + mx + nano > mc or mown + nano > MAX) then
    return stop(2, 7, rolling(u[17]) and leaves(u, mown + mx + nano - mc) or floor(h.day / 100), mown + mx, nano, mc, index)
  end
  if down and (down + dx + nano > dc or down + nano > MAX) then return stop(2, 6, h.day, down + dx, nano, dc, index) end
  if nused + nano > nc then return stop(2, 5, 0, nused, nano, nc, index) end
  return nil, si, so
end

-- The growth is of now, so it is charged to this second; day and month stay those of the reservation.
local function grow(u, nano, tin, tout)
  advance(u, now)
  charge(u, second, 0, tin, tout, nano)
  own(u, h.day, nano, nano)
end

local gn, gi, go = math.max(nano - h.nano, 0), math.max(tin - h.tin, 0), math.max(tout - h.tout, 0)
local known_, hot
if h.root ~= '' then known_, hot = execution(prefix, h.root) end
local x = known_ or { 0, 0, 0, 0, 0, 0, 0, MAX }
if x[5] == 1 then return stop(6, 11, 0, 0, 0, 0) end
if gn + gi + go > 0 then
  if x[1] + x[7] + gn > x[8] or x[1] + gn > MAX then return stop(4, 8, 0, x[1] + x[7], gn, x[8]) end
  local names, limits, scopes = scopesOf(h.kept), {}, {}
  local p, n = 1, 0
  while p < #ARGV[4] do
    local cn, cd, cm, size = unpack_('<dddB', ARGV[4], p)
    n = n + 1
    limits[sub(ARGV[4], p + 25, p + 24 + size)] = { cm, cd, cn, n }
    p = p + 25 + size
  end
  for _, name in ipairs(names) do
    local of, l = branch(name), limits[name]
    if of and l then
      local b = execution(prefix, of) -- one that is gone has outlived its tokens: what it spent is not known, so it grows no more
      local spent = b and b[1] + b[7] or l[1]
      if spent + gn > l[1] then return stop(4, 8, 0, spent, gn, l[1], l[4]) end
    end
  end
  local no, si, so = full(t, gn, mc, dc, nc)
  if no then return no end
  for i, name in ipairs(names) do
    local l = limits[name]
    scopes[i] = not branch(name) and known(prefix, epoch, name)
    no = l and scopes[i] and full(scopes[i], gn, unpack(l))
    if no then return no end
  end
  if si + gi > li then return stop(1, 2, 0, si, gi, li) end
  if so + go > lo then return stop(1, 3, 0, so, go, lo) end
  grow(t, gn, gi, go)
  for i = 1, #names do
    if scopes[i] then
      grow(scopes[i], gn, gi, go)
      save(scopes[i])
    end
  end
  spendBranches(prefix, names, gn, gn, now)
  if known_ then
    x[1], x[2] = x[1] + gn, x[2] + gn
    keep(prefix, h.root, x, hot)
  end
  save(t)
end
local ends = math.max(h.ends, now + lease)
call('HSET', KEYS[1], ARGV[2], pack('<dddd', h.nano + gn, h.tin + gi, h.tout + go, ends) .. sub(h.kept, 33))
return pack('<Bi8i8i8i8', 0, ends, h.nano + gn, h.tin + gi, h.tout + go)
