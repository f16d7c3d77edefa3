-- State of one tenant, shared by all scripts but reserve, which inlines what it needs: layout, clock, load and save.
--
-- Key s is a hash. Its numbers are little-endian doubles that hold whole numbers below 2^53, and integers of 4 bytes for
-- requests, labels and holds:
--   field "{"   what a reservation reads and writes
--     1 epoch, negative while  2 (not stored) is 0: not ready  3 external minutes count until (s)
--     4 last decision (µs)
--     5-8   requests, input, output, nano-dollars of the open second, floor(last / 1e6)
--     9-12  the same over the window: the open second and the 60 before it
--     13-16 day A: label, own, held, external      17-20 month A
--     21 open holds  22 no lease of theirs ends before (µs)  23 holds in e
--     and what else the last reservation was told: a byte (rung, 8 x the rung that the one before was told,
--     64 if the saving estimate was reserved), external dollars of the minute, its execution's
--     dollars, calls and dollar limit (2^53 - 1: none)
--   field "{b"  24-27 day B   28-31 day C   32-35 month B   36-39 month C
--   field "{c"  1 next journal offset
--     2-7 day label, version (x3)    8-13 month label, version (x3)
--     14-37 external minutes: start (s), nano-dollars, version (x8)
--   field "{r"  the seconds of the window before the open one in which something was reserved, oldest first, each 32 bytes:
--               second, requests (4 bytes each), input, output, nano-dollars (doubles)
--   field "{f"  ids that ended lately, 2 bytes of each one's hash: most reservations need to read no more of them
--   field "{d"  the other 4 bytes of each hash, and 4 for the second until which it is remembered
--   field "{o"  see opened.lua
--   field "{x<root>" an execution, see executions.lua
--   field <id> and "{h<id>" an open hold, see holds.lua; no id has a brace
-- A is the window that reserve used last. own includes held.
-- Key e is a hash of the holds that are expiring, by id.
-- One hash, because a call of Redis costs a script more than anything else: a reservation reads and writes it once. Leases
-- are found by field 22, see sweep.
local MAX = 9007199254740991
local HEAD = '<dddI4dddI4dddI4dddI4dddI4dI4'
local HEAD_SIZE = 185
local BACK = '<dddddddddddddddd'
local COLD = '<ddddddddddddddddddddddddddddddddddddd'
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

-- Reads fields 1 to 39; nil if the tenant has no state.
local function load(key)
  local f = call('HMGET', key, '{', '{b')
  if not f[1] then return nil end
  local epoch = unpack_('<d', f[1])
  local t = { math.abs(epoch), epoch > 0 and 1 or 0, select(2, unpack_(HEAD, f[1])) }
  t.told = sub(f[1], 153)
  t[24], t[25], t[26], t[27], t[28], t[29], t[30], t[31], t[32], t[33], t[34], t[35], t[36], t[37], t[38], t[39] =
    unpack_(BACK, f[2])
  return t
end

-- Writes them back, and the ring if a script changed it.
local function save(key, t)
  call('HSET', key, '{', pack(HEAD, t[2] == 1 and t[1] or -t[1], unpack(t, 3, 23)) .. t.told, '{b', pack(BACK, unpack(t, 24, 39)))
  if t.ring then call('HSET', key, '{r', t.ring) end
end

-- The ring, read once.
local function ringOf(t, s)
  if not t.ring then t.ring = call('HGET', s, '{r') or '' end
  return t.ring
end

local function bounded(n)
  if n > MAX then return MAX elseif n < -MAX then return -MAX end
  return n
end

-- Whether the state S, field "{", is of this epoch.
local function current(S, epoch) return math.abs(unpack_('<d', S)) == epoch end
