-- Index of the window of a label among a, b, c. An unknown label takes the place of the older of b and c, unless it is
-- older still: nil.
local function slot(t, a, b, c, label)
  if t[a] == label then return a elseif t[b] == label then return b elseif t[c] == label then return c end
  local o = t[b] <= t[c] and b or c
  if label < t[o] then return nil end
  t[o], t[o + 1], t[o + 2], t[o + 3] = label, 0, 0, 0
  return o
end
