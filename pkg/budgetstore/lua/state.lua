-- State of one tenant, or of one of its sub-scopes, shared by all scripts but reserve, which inlines what it needs: layout,
-- clock, load and save.
--
-- Key s is a hash, and so is the key of a sub-scope, which has only what is marked +. Numbers are little-endian: doubles
-- that hold whole numbers below 2^53, and integers where their bytes are given.
--   field "{" + what a reservation reads and writes
--     1 epoch, negative while  2 (not stored) is 0: not ready  3 external minutes count until (s)
--     4 last decision (µs)
--     5-8   requests (4 bytes), input, output, nano-dollars of the open second, floor(last / 1e6)
--     9-12  the same over the window: the open second and the 60 before it
--     13-16 day A: label (4 bytes), own, held, external      17-20 month A; its label is a day's if it is the last 30 days
--     21 open holds (4 bytes)  22 no lease of theirs ends before (µs)  23 holds in e (4 bytes)
--     and what else the last reservation was told: a byte (rung, 8 x the rung that the one before was told,
--     64 if the saving estimate was reserved), external dollars of the minute, its execution's dollars, calls and dollar
--     limit (2^53 - 1: none)
--   field "{b" + months B and C, see days.lua
--   field "{k" + days, see days.lua
--   field "{c" + 1 next journal offset  2-7 month label (4 bytes), version of its external total (x3)
--     8-31 external minutes: start (s, 4 bytes), nano-dollars, version (x8)
--     32 generation of whoever made the counters, see fence.lua  33 + the run that made them, see based.lua
--   fields "{r0" to "{r3" + the ring, see ring.lua
--   field "{f"  ids that ended lately, see remember.lua; key d, a string, has what most reservations need not read of them
--   field "{o"  see opened.lua
--   field "{x<root>" an execution, see executions.lua
--   field <id> and "{h<id>" an open hold, see holds.lua; no id has a brace
-- A is the window that reserve used last. own includes held.
-- Key e is a hash of the holds that are expiring, by id. Sub-scopes' keys: see scopes.lua.
-- One hash, because a call of Redis costs a script more than anything else: a reservation reads and writes it once. Leases
-- are found by field 22, see sweep.
local MAX = 9007199254740991
local HEAD = '<dddI4dddI4dddI4dddI4dddI4dI4'
local HEAD_SIZE = 185
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

-- Fields 1 to 23 of the state whose field "{" is S. Other fields are read when they are asked for, and written by save.
local function parse(key, S)
  local epoch = unpack_('<d', S)
  local t = { math.abs(epoch), epoch > 0 and 1 or 0, select(2, unpack_(HEAD, S)) }
  t.key, t.told, t.fields, t.changed = key, sub(S, 153), {}, {}
  return t
end

-- nil if there is no such state.
local function load(key)
  local S = call('HGET', key, '{')
  return S and parse(key, S)
end

-- A state in which nothing happened yet.
local function zero(epoch) return pack('<d', epoch) .. rep('\0', HEAD_SIZE - 8) end

local function get(t, field)
  if not t.fields[field] then t.fields[field] = not t.new and call('HGET', t.key, field) or '' end
  return t.fields[field]
end

local function reader(t) return function(field) return get(t, field) end end

local function put(t, field, bytes) t.fields[field], t.changed[field] = bytes, true end

-- Writes field "{" and whatever was put. HSET takes them all at once.
local function save(t)
  local list = { '{', pack(HEAD, t[2] == 1 and t[1] or -t[1], unpack(t, 3, 23)) .. t.told }
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
