-- State of one tenant, shared by all scripts: layout, windows, the minute ring.
--
-- Key s is a string of little-endian doubles that hold whole numbers below 2^53:
--   1 epoch  2 ready  3 external minutes count until (s)
--   4 last decision (µs)
--   5-8   requests, input, output, nano-dollars of the open second, floor(last / 1e6)
--   9-12  the same over the window: the open second and the 60 before it
--   13-16 day A: label, own, held, external      17-20 month A
--   21-24 day B   25-28 day C   29-32 month B    33-36 month C
--   37 next journal offset
--   38-43 day label, version (x3)    44-49 month label, version (x3)
--   50-73 external minutes: start (s), nano-dollars, version (x8)
-- A is the window that reserve used last, so that one SETRANGE of 4-20 does for most calls. own includes held.
-- Key r is the ring: 61 seconds x (requests, input, output, nano-dollars), the second's place is second % 61. The open
-- second is not in it.
local MAX = 9007199254740991
local HEAD = '<dddddddddddddddddddd'
local ALL = '<dddddddddddddddddddddddddddddddddddd'
local COLD = '<ddddddddddddddddddddddddddddddddddddd'
local COLD_AT = 289
local MINUTES_AT = 393
local floor, sub, rep, call = math.floor, string.sub, string.rep, redis.call
local pack, unpack_ = struct.pack, struct.unpack

-- The store's time in µs. Production passes '' for at; tests pass their logical clock.
local function clock(at)
  if at ~= '' then return tonumber(at) end
  local t = call('TIME')
  return t[1] * 1000000 + t[2]
end

local function bounded(n)
  if n > MAX then return MAX elseif n < -MAX then return -MAX end
  return n
end

-- Index of the window of a label among a, b, c. An unknown label takes the place of the older of b and c, unless it is
-- older still: nil.
local function slot(t, a, b, c, label)
  if t[a] == label then return a elseif t[b] == label then return b elseif t[c] == label then return c end
  local o = t[b] <= t[c] and b or c
  if label < t[o] then return nil end
  t[o], t[o + 1], t[o + 2], t[o + 3] = label, 0, 0, 0
  return o
end

local function swap(t, a, b)
  if a == b then return end
  for i = 0, 3 do t[a + i], t[b + i] = t[b + i], t[a + i] end
end

-- Dollars of usage that never asked, of every calendar minute that ended less than 60 s ago, or has not ended. A minute
-- whose corrections exceed its usage counts as 0: what it corrects may have left the window.
local function minutes(S, second)
  local m = { unpack_('<dddddddddddddddddddddddd', S, MINUTES_AT) }
  local sum = 0
  for i = 1, 22, 3 do
    if m[i] + 120 > second and m[i + 1] > 0 then sum = sum + m[i + 1] end
  end
  return bounded(sum), m
end

-- Moves the window from second `from` to second `to`, in numbers only. Returns the window's sums without what has left
-- it, and what must be written to the ring: place and bytes, twice (the second time after the wrap), or nil.
local function roll(r, from, to, oq, oi, oo, on, sq, si, so, sn)
  local k = to - from
  if k > 60 then return 0, 0, 0, 0, 0, rep('\0', 1952) end
  local a, b = (from + 1) % 61, to % 61
  local gone
  if a <= b then
    gone = call('GETRANGE', r, a * 32, b * 32 + 31)
  else
    gone = call('GETRANGE', r, a * 32, 1951) .. call('GETRANGE', r, 0, b * 32 + 31)
  end
  if gone ~= rep('\0', k * 32) then
    for at = 1, #gone, 32 do
      local q, i, o, n = unpack_('<dddd', gone, at)
      sq, si, so, sn = sq - q, si - i, so - o, sn - n
    end
  end
  local new = pack('<dddd', oq, oi, oo, on) .. rep('\0', (k - 1) * 32)
  local at = (from % 61) * 32
  local fits = 1952 - at
  if #new <= fits then return sq, si, so, sn, at, new end
  return sq, si, so, sn, at, sub(new, 1, fits), 0, sub(new, fits + 1)
end
