-- external: takes cumulative totals of usage that never asked, newer versions only. KEYS s. ARGV epoch (i8), TTL of a new
-- execution (ms), then packed total and root for each. Reply: '\0' and how many were taken.
local t = load(KEYS[1])
if not t then return '\10' end
if t[1] ~= unpack_('<i8', ARGV[1]) then return '\12' end
local prefix = sub(KEYS[1], 1, -2)
local cold = { unpack_(COLD, call('HGET', KEYS[1], '{c')) }
local taken = 0

-- Whether version is news for label among the three (label, version) pairs from `at` on; if so, remembers it.
local function news(at, label, version)
  local oldest = at
  for i = at, at + 4, 2 do
    if cold[i] == label then
      if version <= cold[i + 1] then return false end
      cold[i + 1] = version
      return true
    end
    if cold[i] < cold[oldest] then oldest = i end
  end
  if label < cold[oldest] then return false end
  cold[oldest], cold[oldest + 1] = label, version
  return true
end

local function minute(start, version, nano)
  local i = 14 + (start / 60 % 8) * 3
  if start < cold[i] or (start == cold[i] and version <= cold[i + 2]) then return false end
  cold[i], cold[i + 1], cold[i + 2] = start, nano, version
  if start + 120 > t[3] then t[3] = start + 120 end
  return true
end

local function total(root, version, nano)
  local old, hot = execution(prefix, root)
  local x = old or unknown()
  if old and version <= x[11] then return false end
  x[7], x[11] = nano, version
  keep(prefix, root, x, hot, not old and ARGV[2])
  return true
end

for i = 3, #ARGV, 2 do
  local scope, label, version, nano = unpack_('<i8i8i8i8', ARGV[i])
  local new
  if scope == 0 then
    new = minute(label, version, nano)
  elseif scope == 3 then
    new = total(ARGV[i + 1], version, nano)
  else
    local a, b, c, at = 13, 24, 28, 2
    if scope == 2 then a, b, c, at = 17, 32, 36, 8 end
    local s = news(at, label, version) and slot(t, a, b, c, label)
    if s then t[s + 3] = nano end
    new = s
  end
  if new then taken = taken + 1 end
end
save(KEYS[1], t)
call('HSET', KEYS[1], '{c', pack(COLD, unpack(cold, 1, 37)))
return pack('<Bi8', 0, taken)
