-- Moves the open second forward to second b, for an amount that was admitted then.
local function advance(t, s, now)
  local open, second = floor(t[4] / 1000000), floor(now / 1000000)
  if now > t[4] then t[4] = now end
  if second <= open then return end
  t[9], t[10], t[11], t[12], t.ring = roll(ringOf(t, s), open, second, t[5], t[6], t[7], t[8], t[9], t[10], t[11], t[12])
  t[5], t[6], t[7], t[8] = 0, 0, 0, 0
end
