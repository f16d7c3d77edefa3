-- State of one tenant, shared by all scripts: layout and clock.
--
-- Key s is a string of little-endian doubles that hold whole numbers below 2^53:
--   1 epoch  2 ready  3 external minutes count until (s)
--   4 last decision (µs)
--   5-8   requests, input, output, nano-dollars of the open second, floor(last / 1e6)
--   9-12  the same over the window: the open second and the 60 before it
--   13-16 day A: label, own, held, external      17-20 month A
--   21 holds in h  22 no lease of theirs ends before (µs)  23 holds in e
--   24-27 day B   28-31 day C   32-35 month B    36-39 month C
--   40 next journal offset
--   41-46 day label, version (x3)    47-52 month label, version (x3)
--   53-76 external minutes: start (s), nano-dollars, version (x8)
-- A is the window that reserve used last, so that one SETRANGE of 4-23 does for most calls. own includes held.
-- Key r is the ring: 61 seconds x (requests, input, output, nano-dollars), the second's place is second % 61. The open
-- second is not in it.
-- Key h is a hash of the open holds by id, key e of those that are expiring. One hash instead of a key and a sorted-set
-- member for each hold: half the time of a reservation went there. Leases are found by field 22, see sweep.
local MAX = 9007199254740991
local HEAD = '<ddddddddddddddddddddddd'
local ALL = '<ddddddddddddddddddddddddddddddddddddddd'
local COLD = '<ddddddddddddddddddddddddddddddddddddd'
local COLD_AT = 313
local MINUTES_AT = 417
local floor, sub, rep, call = math.floor, string.sub, string.rep, redis.call
local pack, unpack_ = struct.pack, struct.unpack

-- The store's time in µs, never before `last`. Production passes '' for at; tests pass their logical clock.
local function clock(at, last)
  local now = tonumber(at)
  if not now then
    local t = call('TIME')
    now = t[1] * 1000000 + t[2]
  end
  if now < last then return last end
  return now
end
