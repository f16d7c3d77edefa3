-- An execution is doubles own, held, calls; a byte of flags: 1 limits known, 2 revoked, 4 closed; doubles external, then the
-- limits for dollars, depth and calls (MAX = none), and the version of external. It is key x:<root>, which expires, and
-- while it holds something also field "{x<root>" of key s, which then is the newer one: a reservation finds all it needs
-- in one key. In Lua: own, held, calls, known, revoked, closed, external, 3 limits, version.
-- Keys derive from the state key's name, so they share its hash tag and slot.

-- Reads an execution, and whether it is in the state's hash; nil if it is not known.
local function execution(prefix, root)
  local X, hot = call('HGET', prefix .. 's', '{x' .. root), true
  if not X then X, hot = call('GET', prefix .. 'x:' .. root), false end
  if not X then return nil end
  local own, held, calls, flags, external, cost, depth, most, version = unpack_('<dddBddddd', X)
  return { own, held, calls, flags % 2, floor(flags / 2) % 2, floor(flags / 4), external, cost, depth, most, version }, hot
end

-- Writes it back where it was found, or as a new one. An execution that holds nothing any more leaves the hash; its key
-- may have expired meanwhile, then it is gone.
local function keep(prefix, root, x, hot, ttl)
  local key, bytes = prefix .. 'x:' .. root, pack('<dddBddddd', x[1], x[2], x[3], x[4] + 2 * x[5] + 4 * x[6], unpack(x, 7, 11))
  if hot and x[2] > 0 then
    call('HSET', prefix .. 's', '{x' .. root, bytes)
  elseif ttl then
    call('SET', key, bytes, 'PX', ttl)
  else
    if hot then call('HDEL', prefix .. 's', '{x' .. root) end
    call('SET', key, bytes, 'XX', 'KEEPTTL')
  end
end

-- Adds to own and held of an execution, if it is known.
local function spend(prefix, root, nano, held)
  if root == '' then return end
  local x, hot = execution(prefix, root)
  if not x then return end
  x[1], x[2] = bounded(x[1] + nano), x[2] + held
  keep(prefix, root, x, hot)
end
