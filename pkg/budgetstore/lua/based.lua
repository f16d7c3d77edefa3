-- What counters are made from, shared by base, base_scopes and merge.

-- Counts one total of own usage: kind (0 minute, 1 day, 2 month), window, nano-dollars, requests, input, output.
local function count(t, second, kind, window, nano, q, tin, tout)
  if kind == 0 then
    -- Only the minute is known: as late in it as it can have been, so that it counts until the last of it has left.
    charge(t, math.min(window + 59, second), q, tin, tout, nano)
  elseif kind == 1 then
    ownDay(t, window, nano, 0)
  else
    ownMonth(t, window, nano, 0, true)
  end
end

-- A sub-scope as this run of base makes it, nothing counted yet; or as it was left by what came since. Field "{c" names the
-- run, in the tenant's state and in each of its sub-scopes: what an earlier run made is made anew.
local function made(prefix, epoch, name, run, now)
  local key = prefix .. 'c:' .. sub(name, 1, 1) .. ':' .. sub(name, 2)
  local t = load(key)
  if t and t[1] == epoch and cold(t)[33] == run then return t end
  call('DEL', key)
  t = parse(key, zero(epoch))
  t[4], t.turned = now, true
  local c = cold(t)
  c[33] = run
  putCold(t, c)
  return t
end
