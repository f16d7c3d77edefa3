-- The ring: the seconds of the window before the open one in which something was reserved, oldest first, 25 bytes each:
-- second modulo 256 (1), requests (3), input, output, nano-dollars (7 each).
-- Closes the open second `from` with its sums o, for a window that ends with second `to`. Returns the window's sums s without
-- what has left it, and the new ring. Each second is read once when it leaves: constant work per reservation.
local function roll(ring, from, to, oq, oi, oo, on, sq, si, so, sn)
  if to - from > 60 then return 0, 0, 0, 0, '' end
  local at, size = 1, #ring
  while at < size do
    local s, q, i, o, n = struct.unpack('<BI3i7i7i7', ring, at)
    if (from - s) % 256 <= 60 + from - to then break end
    sq, si, so, sn = sq - q, si - i, so - o, sn - n
    at = at + 25
  end
  if at > 1 then ring = string.sub(ring, at) end
  return sq, si, so, sn, ring .. struct.pack('<BI3i7i7i7', from % 256, oq, oi, oo, on)
end
