--#ring

-- Closes the open second `from` with its sums o, for a window that ends with second `to`. Returns the window's sums s without
-- what has left it, and the fields that changed. Each second is read once when it leaves: constant work per reservation.
local function roll(read, from, to, oq, oi, oo, on, sq, si, so, sn)
  if to - from > 60 then return 0, 0, 0, 0, { ['{r0'] = '', ['{r1'] = '', ['{r2'] = '', ['{r3'] = '' } end
  local second, by, changed = from - 60, struct.pack(SECOND, oq, oi, oo, on), {} -- `from` has the place of the first that leaves
  while second < to - 60 do
    local name, bytes = field(read, second)
    local next_ = math.min(second - second % PART + PART, to - 60)
    if bytes ~= '' then
      for s = second, next_ - 1 do
        local q, i, o, n = reserved(bytes, s)
        sq, si, so, sn = sq - q, si - i, so - o, sn - n
      end
    end
    changed[name] = replaced(changed[name] or bytes, second, by .. string.rep(NONE, next_ - second - #by / 24))
    second, by = next_, ''
  end
  return sq, si, so, sn, changed
end
