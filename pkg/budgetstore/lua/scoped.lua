-- Part of reserve: the sub-scopes and branches that a call counts in. ARGV[6], for each: doubles of the ceilings of minute, day
-- and month, of a branch its limit is the last; a byte, 1 if they are those of "*"; length byte, name.
local prefix, second, states, of, p, blob, asked_, n = string.sub(key, 1, -2), (now - us) / 1000000, {}, {}, 1, '', 0, 0
local left -- the least that a branch has left
while p < #scoped do
  local nc, dc, mc, star, size = unpack_('<dddBB', scoped, p)
  local name = string.sub(scoped, p + 26, p + 25 + size)
  p, asked_, n = p + 26 + size, asked_ + 1 + size, n + 1
  local as, id = name, branch(name)
  if id then
    local x = execution(prefix, id)
    of[id], x = x or false, x or unknown()
    local spent = x[1] + x[7]
    if spent + nano > mc or x[1] + nano > MAX then tight = tight or { 8, 0, spent, nano, mc, index = n } end
    left = math.min(left or MAX, mc - spent - nano)
  else
    local u
    u, as = scope(prefix, e, name, star == 1, now)
    if not turn(u, label, mlabel) then return '\13' end
    advance(u, now)
    states[#states + 1] = u
    local minute, day, month = u[12], u[14] + u[16], u[18] + u[20]
    if now < u[3] * 1000000 then minute = minute + minutes(u.key, second) end
    never = never or nano > mc and { 7, mlabel, 0, nano, mc } or nano > dc and { 6, label, 0, nano, dc } or nano > nc and { 5, 0, 0, nano, nc }
    full = full or (month + nano > mc or u[18] + nano > MAX) and { 7, mlabel, month, nano, mc }
      or (day + nano > dc or u[14] + nano > MAX) and { 6, label, day, nano, dc } or minute + nano > nc and { 5, 0, minute, nano, nc }
    for _, no in ipairs({ never or {}, full or {} }) do
      if not no.state then no.state, no.index = u, as == name and n or n + 128 end
    end
  end
  blob = blob .. pack('<B', #as) .. as
end

-- Charges them, and returns what the hold keeps with the names of those that count; and which limit of the root leaves what
-- the least of all leaves, where the root has spent so much and may spend most.
scopes = function(bytes, spent, most)
  for _, u in ipairs(states) do
    u[14], u[15], u[18], u[19] = u[14] + nano, u[15] + nano, u[18] + nano, u[19] + nano
    charge(u, second, 1, tin, tout, nano)
    saveScope(u, now)
  end
  for id, was in pairs(of) do
    local x = was or unknown()
    x[1], x[2], x[3], x[4], x[12] = x[1] + nano, x[2] + nano, x[3] + 1, 1, now
    keep(prefix, id, x, false, not was and string.format('%.0f', (unpack_('<d', arg, 179))))
  end
  local at = 50 + unpack_('<B', bytes, 49)
  return string.sub(bytes, 1, at) .. blob .. string.sub(bytes, at + 1 + asked_), left and math.min(most, spent + left) or most
end
