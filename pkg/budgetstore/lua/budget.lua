-- budget: the counters of a tenant or sub-scope now; changes nothing. KEYS its state. ARGV packed epoch and labels, test
-- clock. Reply: '\0' and the figures; the last is the number of the day that leaves the last 30 next with something of use:
-- with what is used at all, and where the ceiling is used up, with enough for one nano-dollar.
local epoch, day, dends, dnext, month, mends, mnext, ceiling = unpack_('<i8i8i8i8i8i8i8i8', ARGV[1])
local t = load(KEYS[1])
if not t then return '\10' end
if t[1] ~= epoch then return '\12' end
local now = clock(ARGV[2], t[4])
local second, open = floor(now / 1000000), floor(t[4] / 1000000)
local sq, si, so, sn = t[9], t[10], t[11], t[12]
if second ~= open then sq, si, so, sn = roll(reader(t), open, second, t[5], t[6], t[7], t[8], sq, si, so, sn) end
if now >= dends then day = dnext end
if now >= mends then month = mnext end
local late = 0
if t[21] > 0 and now >= t[22] then late = sweep(KEYS[1], nil, now) end
if not turn(t, day, month) then t[13], t[14], t[15], t[16], t[17], t[18], t[19], t[20] = day, 0, 0, 0, month, 0, 0, 0 end
local used, next_ = t[18] + t[20], 0
if rolling(t[17]) and used > 0 then next_ = leaves(t, math.max(1, used - ceiling + 1)) end
return pack('<Bi8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8', 0, now, t[2], cold(t)[1], sq, si, so, sn, minutes(KEYS[1], second), t[13], t[14], t[15],
  t[16], t[17], t[18], t[19], t[20], t[21] - late, t[23] + late, next_)
