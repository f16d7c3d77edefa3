-- extend: moves the lease of an open hold and grows it to at least what is asked. KEYS s. ARGV packed request, id,
-- test clock. Reply: '\0', lease end and what is held; '\1' not open; a refusal means stop.
local epoch, at, caller, lease, nano, tin, tout, li, lo, nl, nc, dl, dc, ml, mc =
  unpack_('<i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8', ARGV[1])
local t = load(KEYS[1])
if not t then return '\10' end
if t[1] ~= epoch then return '\12' end
if t[2] ~= 1 then return '\11' end
local now = clock(ARGV[3], t[4] + 1)
local prefix = sub(KEYS[1], 1, -2)
local h = find(t, prefix, ARGV[2])
if not h or h.at ~= at or not h.open or h.ends <= now then return '\1' end
if now - caller > 2000000 or now - caller < -2000000 then return '\13' end

local function kept(a, b, c, label)
  if t[a] == label then return a elseif t[b] == label then return b elseif t[c] == label then return c end
end
local d, m = kept(13, 24, 28, h.day), kept(17, 32, 36, h.month)
local dused, mused = d and t[d + 1] + t[d + 3] or 0, m and t[m + 1] + t[m + 3] or 0
local function stop(code, limit, window, used, asked, ceiling)
  return pack('<BBBi8i8i8i8i8i8i8', 2, code, limit, now, 0, window, used, asked, ceiling, dused)
end

local gn, gi, go = math.max(nano - h.nano, 0), math.max(tin - h.tin, 0), math.max(tout - h.tout, 0)
local known, hot
if h.root ~= '' then known, hot = execution(prefix, h.root) end
local x = known or { 0, 0, 0, 0, 0, 0, 0, MAX }
if x[5] == 1 then return stop(6, 11, 0, 0, 0, 0) end
if gn + gi + go > 0 then
  local second, open = floor(now / 1000000), floor(t[4] / 1000000)
  local sq, si, so, sn = t[9], t[10], t[11], t[12]
  if second ~= open then sq, si, so, sn = roll(ringOf(t, KEYS[1]), open, second, t[5], t[6], t[7], t[8], sq, si, so, sn) end
  local nused = sn + minutes(KEYS[1], second)
  if x[1] + x[7] + gn > x[8] or x[1] + gn > MAX then return stop(4, 8, 0, x[1] + x[7], gn, x[8]) end
  if m and (mused + gn > mc or t[m + 1] + gn > MAX) then return stop(2, 7, h.month, mused, gn, mc) end
  if d and (dused + gn > dc or t[d + 1] + gn > MAX) then return stop(2, 6, h.day, dused, gn, dc) end
  if nused + gn > nc then return stop(2, 5, 0, nused, gn, nc) end
  if si + gi > li then return stop(1, 2, 0, si, gi, li) end
  if so + go > lo then return stop(1, 3, 0, so, go, lo) end
  -- The growth is of now, so it is charged to this second; day and month stay those of the reservation.
  advance(t, KEYS[1], now)
  charge(t, KEYS[1], second, 0, gi, go, gn)
  own(t, 13, 24, 28, h.day, gn, gn)
  own(t, 17, 32, 36, h.month, gn, gn)
  if known then
    x[1], x[2] = x[1] + gn, x[2] + gn
    keep(prefix, h.root, x, hot)
  end
  save(KEYS[1], t)
end
local ends = math.max(h.ends, now + lease)
call('HSET', KEYS[1], ARGV[2], pack('<dddd', h.nano + gn, h.tin + gi, h.tout + go, ends) .. sub(h.kept, 33))
return pack('<Bi8i8i8i8', 0, ends, h.nano + gn, h.tin + gi, h.tout + go)
