-- Adds to second b of a ring, which is one of the 60 before the open one.
local function splice(ring, open, b, q, i, o, n)
  local at = #ring - 24
  while at > 0 and open - (open - struct.unpack('<B', ring, at)) % 256 > b do at = at - 25 end
  local rest = at + 25
  if at > 0 then
    local second, wq, wi, wo, wn = struct.unpack('<BI3i7i7i7', ring, at)
    if second == b % 256 then q, i, o, n, rest = q + wq, i + wi, o + wo, n + wn, at end
  end
  return string.sub(ring, 1, rest - 1) .. struct.pack('<BI3i7i7i7', b % 256, q, i, o, n) .. string.sub(ring, at + 25)
end
