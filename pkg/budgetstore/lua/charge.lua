--#splice

-- Moves the open second forward to that of now, for an amount that was admitted then.
local function advance(t, now)
  local open, second = floor(t[4] / 1000000), floor(now / 1000000)
  if now > t[4] then t[4] = now end
  if second <= open then return end
  local changed
  t[9], t[10], t[11], t[12], changed = roll(reader(t), open, second, t[5], t[6], t[7], t[8], t[9], t[10], t[11], t[12])
  t[5], t[6], t[7], t[8] = 0, 0, 0, 0
  for name, bytes in pairs(changed) do put(t, name, bytes) end
end

-- Adds to the ring at second b: to the open second, to one of the 60 before it, or nowhere if it has left the window.
local function charge(t, b, q, i, o, n)
  local open = floor(t[4] / 1000000)
  if b > open or b < open - 60 then return end
  t[9], t[10], t[11], t[12] = t[9] + q, t[10] + i, t[11] + o, t[12] + n
  if b == open then
    t[5], t[6], t[7], t[8] = t[5] + q, t[6] + i, t[7] + o, t[8] + n
    return
  end
  put(t, splice(reader(t), b, q, i, o, n))
end
