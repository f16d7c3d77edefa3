-- external: takes cumulative totals of usage that never asked, newer versions only. KEYS s. ARGV epoch (i8), TTL of a new
-- execution (ms), test clock, then for each total: packed, root, and the sub-scope's name after '*' or '.' (the plan names
-- it). Reply: '\0', how many were taken, and how many left out: of executions that are not known, and for which there is no place.
local t = load(KEYS[1])
if not t then return '\10' end
if t[1] ~= unpack_('<i8', ARGV[1]) then return '\12' end
local prefix, now = sub(KEYS[1], 1, -2), clock(ARGV[3], t[4])
local taken, left, touched = 0, 0, {}

-- Takes a calendar minute.
local function minute(u, start, version, nano)
  local c = cold(u)
  local i = 8 + (start / 60 % 8) * 3
  if start < c[i] or (start == c[i] and version <= c[i + 2]) then return false end
  c[i], c[i + 1], c[i + 2] = start, nano, version
  putCold(u, c)
  if start + 120 > u[3] then u[3] = start + 120 end
  return true
end

local function day(u, label, version, nano)
  local n = number(label)
  local own, external, old = dayAt(u, n)
  if not own or version <= old then return false end
  if label == u[13] then external, u[16] = u[16], nano end
  putDay(u, n, own, nano, version)
  if rolling(u[17]) and n >= number(u[17]) - 30 then u[20] = bounded(u[20] + nano - external) end
  return true
end

-- Takes a calendar month. The versions of three are kept.
local function month(u, label, version, nano)
  local c, at = cold(u), nil
  for i = 2, 6, 2 do
    if c[i] == label then at = i end
  end
  if at and version <= c[at + 1] then return false end
  if not at then
    at = 2
    for i = 4, 6, 2 do
      if c[i] < c[at] then at = i end
    end
    if label < c[at] then return false end
  end
  c[at], c[at + 1] = label, version
  putCold(u, c)
  if label == u[17] then
    u[20] = nano
    return true
  end
  local b = months(u)
  local i = place(b, label)
  if i then
    b[i + 3] = nano
    putMonths(u)
  end
  return i ~= nil
end

local function total(root, version, nano)
  local old, hot = execution(prefix, root)
  local x = old or unknown()
  if old and version <= x[11] then return false end
  if not old and not enrol(prefix .. 'v:u', root, now, tonumber(ARGV[2]), ROOTS) then
    left = left + 1
    return false
  end
  x[7], x[11] = nano, version
  keep(prefix, root, x, hot, not old and ARGV[2])
  return true
end

-- The state that a total belongs to: the tenant's, or that of a sub-scope, which is read once. What shares "~" is left out: its
-- version cannot be compared.
local function state(ref)
  if ref == '' then return t end
  if not touched[ref] then
    local u, name = scope(prefix, t[1], sub(ref, 2), sub(ref, 1, 1) == '*', now)
    touched[ref] = name == sub(ref, 2) and u or false
  end
  return touched[ref]
end

-- Whether a window begins more than two days from now: what is of a time to come, by a producer's clock, must not take the
-- place of what counts now. Two days are for time zones, and for what lies between the clocks.
local soon = floor(now / 86400000000) + 2
local function early(kind, label)
  if kind == 0 then return label / 86400 > soon end
  return kind < 3 and number(kind == 1 and label or label * 100 + 1) > soon
end

for i = 4, #ARGV, 3 do
  local kind, label, version, nano = unpack_('<i8i8i8i8', ARGV[i])
  local u, new = not early(kind, label) and state(ARGV[i + 2]), false
  if u and kind == 0 then
    new = minute(u, label, version, nano)
  elseif u and kind == 1 then
    new = day(u, label, version, nano)
  elseif u and kind == 2 then
    new = month(u, label, version, nano)
  elseif kind == 3 then
    new = total(ARGV[i + 1], version, nano)
  end
  if new then taken = taken + 1 end
  if new and u ~= t then u.turned, u.taken = true, true end
end
for _, u in pairs(touched) do
  if u and u.taken then saveScope(u, now) end
end
save(t)
return pack('<Bi8i8', 0, taken, left)
