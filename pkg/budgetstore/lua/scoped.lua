-- Part of reserve: the sub-scopes that a call counts in. In ARGV[6] from p on, for each: doubles of the ceilings of minute, day and month; a
-- byte, 1 if they are those of "*"; length byte, name.
local prefix, second, states, blob, asked_ = string.sub(key, 1, -2), (now - us) / 1000000, {}, '', 0
while p < #scoped do
  local nc, dc, mc, star, size = unpack_('<dddBB', scoped, p)
  local name = string.sub(scoped, p + 26, p + 25 + size)
  local u, as = scope(prefix, e, name, star == 1, now)
  if not turn(u, label, mlabel) then return '\13' end
  advance(u, now)
  local n = #states + 1
  states[n], p, blob, asked_ = u, p + 26 + size, blob .. pack('<B', #as) .. as, asked_ + 1 + size
  local minute, day, month = u[12], u[14] + u[16], u[18] + u[20]
  if now < u[3] * 1000000 then minute = minute + minutes(u.key, second) end
  never = never or nano > mc and { 7, mlabel, 0, nano, mc } or nano > dc and { 6, label, 0, nano, dc } or nano > nc and { 5, 0, 0, nano, nc }
  full = full or (month + nano > mc or u[18] + nano > MAX) and { 7, mlabel, month, nano, mc }
    or (day + nano > dc or u[14] + nano > MAX) and { 6, label, day, nano, dc } or minute + nano > nc and { 5, 0, minute, nano, nc }
  for _, no in ipairs({ never or {}, full or {} }) do
    if not no.state then no.state, no.read, no.index = u, reader(u), count + (as == name and n or n + 128) end
  end
end

-- Charges them, and returns what the hold keeps with the names of those that count.
scopes = function(bytes)
  for _, u in ipairs(states) do
    u[14], u[15], u[18], u[19] = u[14] + nano, u[15] + nano, u[18] + nano, u[19] + nano
    charge(u, second, 1, tin, tout, nano)
    saveScope(u, now)
  end
  local at = 50 + unpack_('<B', bytes, 49)
  return string.sub(bytes, 1, at) .. blob .. string.sub(bytes, at + 1 + asked_)
end
