-- State of one tenant, or of one of its sub-scopes, shared by all scripts but reserve, which inlines what it needs: layout,
-- clock, load and save.
--
-- Key s is a hash, and so is the key of a sub-scope, which has only what is marked +. Numbers are little-endian: doubles
-- that hold whole numbers below 2^53, and integers where their bytes are given.
--   field "{" + what a reservation reads, but does not write, unless it is the first of its second:
--     1 epoch, negative while  2 (not stored) is 0: not ready  3 external minutes count until (s)
--     17 label of month A (4 bytes)  23 holds in e (4 bytes)
--     9-12 (4 bytes, doubles), 15 and 19 as they were when the open second began, see below
--     and the ids that ended lately, see remember.lua; key d, a string, has what most reservations need not read of them
--   field "{n" + what each reservation writes, and what its answer is made from:
--     4 last decision (µs)
--     9-12  requests (4 bytes), input, output, nano-dollars over the window: the open second and the 60 before it
--     13 label of day A (4 bytes)  14, 16 its own and external  18, 20 those of month A
--     21 open holds (4 bytes)  22 no lease of theirs ends before (µs)
--     and what else the last reservation was told: a byte (rung, 8 x the rung that the one before was told,
--     64 if the saving estimate was reserved), external dollars of the minute, its execution's dollars, calls and dollar
--     limit (2^53 - 1: none)
--   Not stored: 5-8, what is of the open second, floor(last / 1e6), in 9-12, is 9-12 less what they were when it began. Held
--     of day A (15) and of month A (19) are stored less its nano-dollars (8): a reservation adds to all three alike, so it
--     need not write them. Month A's label is a day's if it is the last 30 days.
--   field "{b" + months B and C, see days.lua
--   field "{k" + days, see days.lua
--   field "{c" + 1 next journal offset  2-7 month label (4 bytes), version of its external total (x3)
--     8-31 external minutes: start (s, 4 bytes), nano-dollars, version (x8)
--     32 generation of whoever made the counters, see fence.lua  33 + the run that made them, see based.lua
--   fields "{r0" to "{r3" + the ring, see ring.lua
--   field "{o"  see opened.lua
--   field "{x<root>" an execution, see executions.lua
--   field <id> and "{h<id>" an open hold, see holds.lua; no id has a brace
-- A is the window that reserve used last. own includes held.
-- Key e is a hash of the holds that are expiring, by id. Sub-scopes' keys: see scopes.lua.
-- One hash, because a call of Redis costs a script more than anything else: a reservation reads and writes it once. Two
-- fields, because then it packs 17 numbers instead of 27, and a hold keeps 117 bytes instead of 185: a twentieth of a
-- reservation, and a fourteenth of one in a batch. Leases
-- are found by field 22, see sweep.
local MAX = 9007199254740991
local STILL, STILL_SIZE = '<ddI4I4I4ddddd', 68
local NOW, NOW_SIZE, TOLD_SIZE = '<dI4dddI4ddddI4d', 117, 33
local COLD = '<dI4dI4dI4dI4ddI4ddI4ddI4ddI4ddI4ddI4ddI4dddd'
local COLD_SIZE = 220
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

-- Numbers 1 to 23 of the state whose fields "{" and "{n" are S and N. Other fields are read when they are asked for, and
-- written by save.
local function parse(key, S, N)
  local epoch, extends, ma, expiring, q, i, o, n, dh, mh = unpack_(STILL, S)
  local last, sq, si, so, sn, da, dw, dx, mw, mx, running, first = unpack_(NOW, N)
  n = sn - n
  local t = { math.abs(epoch), epoch > 0 and 1 or 0, extends, last, sq - q, si - i, so - o, n, sq, si, so, sn,
    da, dw, dh + n, dx, ma, mw, mh + n, mx, running, first, expiring }
  t.key, t.ended, t.told, t.fields, t.changed = key, sub(S, STILL_SIZE + 1), sub(N, -TOLD_SIZE), {}, {}
  return t
end

-- nil if there is no such state.
local function load(key)
  local v = call('HMGET', key, '{', '{n')
  return v[1] and parse(key, v[1], v[2])
end

-- Fields "{" and "{n" of a state in which nothing happened yet.
local function zero(epoch) return pack('<d', epoch) .. rep('\0', STILL_SIZE - 8), rep('\0', NOW_SIZE) end

local function get(t, field)
  if not t.fields[field] then t.fields[field] = not t.new and call('HGET', t.key, field) or '' end
  return t.fields[field]
end

local function reader(t) return function(field) return get(t, field) end end

local function put(t, field, bytes) t.fields[field], t.changed[field] = bytes, true end

-- Writes fields "{" and "{n" and whatever was put. HSET takes them all at once.
local function save(t)
  local n = t[8]
  local list = {
    '{', pack(STILL, t[2] == 1 and t[1] or -t[1], t[3], t[17], t[23], t[9] - t[5], t[10] - t[6], t[11] - t[7], t[12] - n,
      t[15] - n, t[19] - n) .. t.ended,
    '{n', pack(NOW, t[4], t[9], t[10], t[11], t[12], t[13], t[14], t[16], t[18], t[20], t[21], t[22]) .. t.told }
  for field in pairs(t.changed) do
    list[#list + 1], list[#list + 2] = field, t.fields[field]
  end
  call('HSET', t.key, unpack(list))
end

-- Field "{c" as numbers; all 0 where there is none yet.
local function cold(t)
  local bytes = get(t, '{c')
  return { unpack_(COLD, bytes == '' and rep('\0', COLD_SIZE) or bytes) }
end

local function putCold(t, c) put(t, '{c', pack(COLD, unpack(c, 1, 33))) end

local function bounded(n)
  if n > MAX then return MAX elseif n < -MAX then return -MAX end
  return n
end

-- Whether the state S, field "{", is of this epoch.
local function current(S, epoch) return math.abs(unpack_('<d', S)) == epoch end
