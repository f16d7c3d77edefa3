-- budget: a tenant's counters now; changes nothing. KEYS s. ARGV packed epoch and labels, test clock.
local epoch, day, dends, dnext, month, mends, mnext = unpack_('<i8i8i8i8i8i8i8', ARGV[1])
local t = load(KEYS[1])
if not t then return '\10' end
if t[1] ~= epoch then return '\12' end
local now = clock(ARGV[2], t[4])
local second, open = floor(now / 1000000), floor(t[4] / 1000000)
local sq, si, so, sn = t[9], t[10], t[11], t[12]
if second ~= open then sq, si, so, sn = roll(ringOf(t, KEYS[1]), open, second, t[5], t[6], t[7], t[8], sq, si, so, sn) end
if now >= dends then day = dnext end
if now >= mends then month = mnext end
local function window(a, b, c, label)
  for _, i in ipairs({ a, b, c }) do
    if t[i] == label then return t[i + 1], t[i + 2], t[i + 3] end
  end
  return 0, 0, 0
end
local dw, dh, dx = window(13, 24, 28, day)
local mw, mh, mx = window(17, 32, 36, month)
local late = 0
if t[21] > 0 and now >= t[22] then late = sweep(KEYS[1], nil, now) end
local offset = unpack_('<d', call('HGET', KEYS[1], '{c'))
return pack('<Bi8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8', 0, now, t[2], offset, sq, si, so, sn, minutes(KEYS[1], second), day, dw, dh, dx,
  month, mw, mh, mx, t[21] - late, t[23] + late)
