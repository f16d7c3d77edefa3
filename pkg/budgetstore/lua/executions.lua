-- An execution is doubles own, held, calls; a byte of flags: 1 limits known, 2 revoked, 4 closed, 8 in set o; doubles
-- external, then the limits for dollars, depth and calls (MAX = none), the version of external, when it was last used. It
-- is key x:<root>, which expires, and while it holds something also field "{x<root>" of key s, which then is the newer
-- one: a reservation finds all it needs in one key. Set o has the open ones, where the tenant's are limited: at most the
-- limit. In Lua: own, held, calls, known, revoked, closed, external, 3 limits, version, last used, in o.
-- A branch of an execution, a child agent that may spend less with all its descendants, is laid out the same; its key is
-- x:{<id>, since no id has a brace, and it never is a field of s. Holds name it 'x<id>' among their sub-scopes. Set v:x, see
-- branch.lua, has those that live.
-- What makes a root known takes one of ROOTS places, for as long as its key lives: set v:r has those that were started or
-- reserved in, set v:u what else usage that never asked names, branches of it too, and revocations, which get twice as many.
-- Keys derive from the state key's name, so they share its hash tag and slot.

local ROOTS = 65536

local function digits(n) return string.format('%.0f', n) end

-- Whether an execution has one of so many places (nil: any number) in a sorted set, whose scores are when each ends (ms), or
-- could have one.
local function fits(all, name, now, most)
  call('ZREMRANGEBYSCORE', all, '-inf', digits(floor(now / 1000)))
  return not most or call('ZCARD', all) < most or call('ZSCORE', all, name)
end

-- Gives it one for so long (ms). False if there is none.
local function enrol(all, name, now, life, most)
  if not fits(all, name, now, most) then return false end
  now = floor(now / 1000)
  call('ZADD', all, digits(now + life), name)
  if call('PTTL', all) < life then call('PEXPIRE', all, digits(life)) end
  return true
end

-- Reads an execution, and whether it is in the state's hash; nil if it is not known. t is the state, if that may have the
-- field already.
local function execution(prefix, root, t)
  local X, hot = t and t.fields['{x' .. root], true
  if not X then X = call('HGET', prefix .. 's', '{x' .. root) end
  if not X or X == '' then X, hot = call('GET', prefix .. 'x:' .. root), false end
  if not X then return nil end
  local own, held, calls, flags, external, cost, depth, most, version, used = unpack_('<dddBdddddd', X)
  return { own, held, calls, flags % 2, floor(flags / 2) % 2, floor(flags / 4) % 2, external, cost, depth, most, version, used,
    floor(flags / 8) }, hot
end

local function unknown() return { 0, 0, 0, 0, 0, 0, 0, MAX, MAX, MAX, 0, 0, 0 } end

local function bytesOf(x)
  return pack('<dddBdddddd', x[1], x[2], x[3], x[4] + 2 * x[5] + 4 * x[6] + 8 * x[13], unpack(x, 7, 12))
end

-- Writes it back where it was found, or as a new one. An execution that holds nothing any more leaves the hash; its key
-- may have expired meanwhile, then it is gone.
local function keep(prefix, root, x, hot, ttl)
  local key, bytes = prefix .. 'x:' .. root, bytesOf(x)
  if hot and x[2] > 0 then
    call('HSET', prefix .. 's', '{x' .. root, bytes)
  elseif ttl then
    call('SET', key, bytes, 'PX', ttl)
  else
    if hot then call('HDEL', prefix .. 's', '{x' .. root, '{o') end
    call('SET', key, bytes, 'XX', 'KEEPTTL')
  end
end

-- Takes it out of the open ones.
local function shut(prefix, root, x)
  if x[13] == 1 then call('SREM', prefix .. 'o', root) end
  x[13] = 0
end

-- Adds to own and held of an execution, and to its calls, if it is known.
local function spend(prefix, root, nano, held, now, t, calls)
  if root == '' then return end
  local x, hot = execution(prefix, root, t)
  if not x then return end
  x[1], x[2], x[3] = bounded(x[1] + nano), x[2] + held, x[3] + (calls or 0)
  if now > x[12] then x[12] = now end
  if t and hot and x[2] > 0 then return put(t, '{x' .. root, bytesOf(x)) end
  if t then t.fields['{x' .. root], t.changed['{x' .. root] = nil, nil end
  keep(prefix, root, x, hot)
end

-- The branch that a name of scopes.lua is, as the functions above take it; nil for other sub-scopes.
local function branch(name) return sub(name, 1, 1) == 'x' and '{' .. sub(name, 2) or nil end

-- Adds to own and held of the branches among the names of a hold.
local function spendBranches(prefix, names, nano, held, now)
  for _, name in ipairs(names) do
    local of = branch(name)
    if of then spend(prefix, of, nano, held, now) end
  end
end
