-- batch: decides on several reservations of one tenant, one after the other, each as reserve would. KEYS s. ARGV for each:
-- packed request, id, what its hold keeps, the execution's field, branches and sub-scopes ('' without); then, only in tests,
-- a clock. Reply: those of reserve.
-- The clock, the state, and what is there of the ids and executions are read once, and what is admitted is written at once,
-- so that a call which fails in the middle leaves whole reservations behind, or none.
local key, last_ = KEYS[1], #ARGV - #ARGV % 5
local ask, now = redis.call, #ARGV > last_ and tonumber(ARGV[#ARGV])
if not now then
  local t = ask('TIME')
  now = t[1] * 1000000 + t[2]
end

-- What was read, as the reservations before left it: the state's two fields, whether each id is held, and by field the executions.
local S, N, held, xs, seen
-- Fields to be written: the state, two for each hold, and others, each once, at the place that `at` has.
local pending, size, at = { '{n' }, 2, {}

local function later(field, value)
  local i = at[field]
  if not i then i, size = size + 1, size + 2 end
  at[field], pending[i], pending[i + 1] = i, field, value
end

-- Leaves the state, an id and its execution as an admitted reservation left them.
local function leave(head, still, id, xfield, x)
  S, N = still or S, head
  if held then seen[id] = true end
  if held and x then xs[xfield] = x end
end

local function write()
  if pending[2] then ask('HSET', key, unpack(pending)) end
  pending, size, at = { '{n' }, 2, {}
end

-- Whatever else a reservation asks of the state, or writes elsewhere, comes after those before it; what was read for all is
-- forgotten where something else changes it.
local redis = { call = function(command, name, ...)
  if name == key or command ~= 'GET' and command ~= 'GETRANGE' then write() end
  if name == key and (command == 'HSET' or command == 'HDEL') then held = nil end
  return ask(command, name, ...)
end }

-- Reads for the reservations from ARGV[i] on.
local function read(i)
  local asked, n, of = { '{', '{n' }, 2, {}
  for k = i, last_, 5 do
    n = n + 1
    asked[n], of[k] = ARGV[k + 1], n
    if k == i or ARGV[k + 3] ~= ARGV[k - 2] then -- each execution once
      n = n + 1
      asked[n] = ARGV[k + 3]
    end
  end
  local f = redis.call('HMGET', key, unpack(asked))
  S, N, held, xs, seen = f[1], f[2], {}, {}, {}
  for k = i, last_, 5 do
    local at_ = of[k]
    held[k] = f[at_]
    if k == i or ARGV[k + 3] ~= ARGV[k - 2] then xs[ARGV[k + 3]] = f[at_ + 1] end
  end
end

local function decide(KEYS, ARGV, H)
--#reserve
end

local replies, n = {}, 0
for i = 1, last_, 5 do
  if not held or seen[ARGV[i + 1]] then read(i) end
  local scopes = ARGV[i + 4]
  n = n + 1
  replies[n] = decide(KEYS, { ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], now, scopes ~= '' and scopes or nil }, held[i])
end
write()
return replies
