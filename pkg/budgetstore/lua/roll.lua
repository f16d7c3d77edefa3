-- Closes the open second `from` with its sums o, for a window that ends with second `to`. Returns the window's sums s without
-- what has left it, and the new ring. Each second is read once when it leaves: constant work per reservation.
local function roll(ring, from, to, oq, oi, oo, on, sq, si, so, sn)
  if to - from > 60 then return 0, 0, 0, 0, '' end
  local at, size = 1, #ring
  while at < size do
    local s, q, i, o, n = struct.unpack('<I4I4ddd', ring, at)
    if s >= to - 60 then break end
    sq, si, so, sn = sq - q, si - i, so - o, sn - n
    at = at + 32
  end
  if at > 1 then ring = string.sub(ring, at) end
  return sq, si, so, sn, ring .. struct.pack('<I4I4ddd', from, oq, oi, oo, on)
end
