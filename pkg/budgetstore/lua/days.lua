-- Days and months. Day A is in field "{"; field "{k" has 33 days, each at its number (days since 1970) modulo 33, so that a
-- day takes the place of the one 33 days before it: number (2 bytes), own, external, version of the external total (7 bytes
-- each). The figures of day A there are those of when it was last left; its version is right.
-- Month A is a calendar month, or the last 30 days: today and the 30 days before, so never less than 30 times 24 hours; and
-- what comes after today, up to two days, which have begun where the tenant's time zone was before it moved west. Its
-- label is then today's, and it is summed anew from the days when the day turns. Held of the last 30 days is that of all
-- open holds. Calendar months B and C, field "{b": label (4 bytes), own, held, external (doubles). They mean nothing while A
-- is the last 30 days: then reservations count in no calendar month.
-- What is held of a day or month is lost when A leaves it for a day or another kind of month, so it never counts too much.
local DAY, DAYS = '<I2i7i7I7', 759

-- The number of a day YYYYMMDD of the Gregorian calendar; March is the first month of a year that is reckoned with.
local function number(label)
  local y, m, d = floor(label / 10000), floor(label / 100) % 100, label % 100
  if m < 3 then y, m = y - 1, m + 12 end
  return 365 * y + floor(y / 4) - floor(y / 100) + floor(y / 400) + floor((153 * m - 457) / 5) + d - 719469
end

local function rolling(label) return label > 9999999 end

local function days(t)
  local k = get(t, '{k')
  return k == '' and rep('\0', DAYS) or k
end

-- Own, external and version of a day beside A; nil if a later day has its place.
local function dayAt(t, n)
  local m, own, external, version = unpack_(DAY, days(t), n % 33 * 23 + 1)
  if m == n then return own, external, version elseif m < n then return 0, 0, 0 end
end

local function putDay(t, n, own, external, version)
  local k, at = days(t), n % 33 * 23
  put(t, '{k', sub(k, 1, at) .. pack(DAY, n, own, external, version) .. sub(k, at + 24))
end

-- Own and external of the days from one number to another.
local function sum(t, from, to)
  local k, a, own, external = days(t), t[13] > 0 and number(t[13]) or 0, 0, 0
  if a >= from and a <= to then own, external = t[14], t[16] end
  for i = 1, DAYS, 23 do
    local n, o, x = unpack_(DAY, k, i)
    if n >= from and n <= to and n ~= a then own, external = own + o, external + x end
  end
  return bounded(own), bounded(external)
end

-- The months beside A: label, own, held, external of B, then of C.
local function months(t)
  if not t.months then
    local b = get(t, '{b')
    t.months = { unpack_('<I4dddI4ddd', b == '' and rep('\0', 56) or b) }
  end
  return t.months
end

local function putMonths(t) put(t, '{b', pack('<I4dddI4ddd', unpack(t.months, 1, 8))) end

-- Where a calendar month is in months B and C. An unknown one takes the place of the older, unless it is older still: nil.
local function place(b, label)
  if b[1] == label then return 1 elseif b[5] == label then return 5 end
  local i = b[1] <= b[5] and 1 or 5
  if label < b[i] then return nil end
  b[i], b[i + 1], b[i + 2], b[i + 3] = label, 0, 0, 0
  return i
end

-- Own and external of a calendar month's days, a number of months later.
local function sumMonth(t, label, later)
  local n = floor(label / 100) * 12 + label % 100 - 1 + later
  local function first(n) return floor(n / 12) * 10000 + (n % 12 + 1) * 100 + 1 end
  return floor(first(n) / 100), sum(t, number(first(n)), number(first(n + 1)) - 1)
end

-- Makes a calendar month A. The one that was A is kept. After the last 30 days it is summed from the days, and so are the
-- months beside it: a change of the time zone may make one of those A next, and holds of theirs may be open.
local function calendarMonth(t, label)
  local b = months(t)
  if rolling(t[17]) then
    t[19], b[3], b[7] = t[15], 0, 0
    t[17], t[18], t[20] = sumMonth(t, label, 0)
    b[1], b[2], b[4] = sumMonth(t, label, 1)
    b[5], b[6], b[8] = sumMonth(t, label, -1)
  else
    local i = place(b, label)
    if not i then return false end
    for k = 0, 3 do t[17 + k], b[i + k] = b[i + k], t[17 + k] end
  end
  putMonths(t)
  return true
end

-- Makes the 30 days until a day month A.
local function lastDays(t, label)
  if not rolling(t[17]) then
    local b = months(t)
    t[19] = t[19] + b[3] + b[7]
  end
  t[17] = label
  t[18], t[20] = sum(t, number(label) - 30, 65535)
end

-- Makes a day and a month A; false if they are too old to be kept.
local function turn(t, day, month)
  if day ~= t[13] then
    local n = number(day)
    local own, external = dayAt(t, n)
    if not own then return false end
    if t[13] > 0 then
      local a = number(t[13])
      local _, _, version = dayAt(t, a)
      if version then putDay(t, a, t[14], t[16], version) end
    end
    t[13], t[14], t[15], t[16], t.turned = day, own, 0, external, true
  end
  if month == t[17] then return true end
  if not rolling(month) then return calendarMonth(t, month) end
  lastDays(t, month)
  return true
end

-- Adds to own and held of a day, if it is still kept: false if not.
local function ownDay(t, day, nano, held)
  if day == t[13] then
    t[14], t[15] = bounded(t[14] + nano), math.max(t[15] + held, 0)
    return true
  end
  local n = number(day)
  local own, external, version = dayAt(t, n)
  if own then putDay(t, n, bounded(own + nano), external, version) end
  return own
end

-- The same for a calendar month. make: one that was not kept yet becomes B or C.
local function ownMonth(t, month, nano, held, make)
  if month == t[17] then
    t[18], t[19] = bounded(t[18] + nano), math.max(t[19] + held, 0)
    return
  end
  local b = months(t)
  local i = make and place(b, month) or b[1] == month and 1 or b[5] == month and 5
  if not i then return end
  b[i + 1], b[i + 2] = bounded(b[i + 1] + nano), math.max(b[i + 2] + held, 0)
  putMonths(t)
end

-- Adds to own and held of the windows of a reservation, which its day names.
local function own(t, day, nano, held, make)
  local kept = ownDay(t, day, nano, held)
  if not rolling(t[17]) then return ownMonth(t, floor(day / 100), nano, held, make) end
  if kept and number(day) >= number(t[17]) - 30 then t[18] = bounded(t[18] + nano) end
  t[19] = math.max(t[19] + held, 0)
end

-- The number of the day with which, of the last 30 or after them, enough leaves that `need` nano-dollars less are used.
local function leaves(t, need)
  local today = number(t[17])
  for n = today - 30, today + 2 do
    local own, external = 0, 0
    if t[13] > 0 and n == number(t[13]) then own, external = t[14], t[16] else own, external = dayAt(t, n) end
    need = need - (own or 0) - (external or 0)
    if need <= 0 then return n end
  end
  return today
end
