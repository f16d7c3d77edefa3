-- Sub-scopes of a tenant: a cost centre, an agent or an API key with ceilings of its own. The name of one is a letter for its
-- kind (c, a, k) and its id. Key c:<letter>:<id> is its state, laid out as the tenant's, and lives 36 days from the last day on
-- which it was reserved in, which is longer than any window. A scope of another epoch is none.
-- Ids that the plan does not name, but its "*", are bounded: key v:<letter>, a sorted set, has when each was last used (s),
-- and what comes when 1,024 are there shares scope "~". Letter x is for branches of an execution, see executions.lua: they are
-- no states.
local LIFE, STARS = 3110400, 1024

local function known(prefix, epoch, name)
  local t = load(prefix .. 'c:' .. sub(name, 1, 1) .. ':' .. sub(name, 2))
  return t and t[1] == epoch and t or nil
end

-- Reads a scope, or makes one that nothing has counted in yet; it is stored by saveScope. Returns its name too.
local function scope(prefix, epoch, name, star, now)
  local t = known(prefix, epoch, name)
  local all, id = prefix .. 'v:' .. sub(name, 1, 1), sub(name, 2)
  if not t then
    if star and id ~= '~' and call('ZCARD', all) >= STARS and not call('ZSCORE', all, id) then
      call('ZREMRANGEBYSCORE', all, '-inf', string.format('%.0f', floor(now / 1000000) - LIFE))
      if call('ZCARD', all) >= STARS then return scope(prefix, epoch, sub(name, 1, 1) .. '~', false, now) end
    end
    t = parse(prefix .. 'c:' .. sub(name, 1, 1) .. ':' .. id, zero(epoch))
    t.new, t.turned = true, true -- new: nothing is read of what another epoch may have left
  end
  if star and id ~= '~' then t.all, t.id = all, id end
  return t, name
end

-- Stores a scope. Once a day, or if touched, it lives on.
local function saveScope(t, now)
  if t.new then call('DEL', t.key) end
  save(t)
  if not t.turned then return end
  call('EXPIRE', t.key, LIFE)
  if t.all then call('ZADD', t.all, string.format('%.0f', floor(now / 1000000)), t.id) end
end

-- Does something to each of the scopes that are still there, branches apart.
local function eachScope(prefix, epoch, names, act)
  for _, name in ipairs(names) do
    local t = sub(name, 1, 1) ~= 'x' and known(prefix, epoch, name)
    if t then
      act(t)
      save(t)
    end
  end
end
