-- Part of reserve: the branches of its execution that a call counts in (see executions.lua), without the functions that
-- sub-scopes need. ARGV[6]: how many (a byte), for each its limit (a double), length byte, id; sub-scopes follow, from p on.
local count, p, read, left = unpack_('<B', scoped), 2, {}, nil -- left: the least that one of them has
for n = 1, count do
  local most, size = unpack_('<dB', scoped, p)
  local name = string.sub(scoped, p + 9, p + 8 + size)
  local of = string.sub(key, 1, -2) .. 'x:{' .. name
  p = p + 9 + size
  local B, own, held, calls, flags, external = call('GET', of), 0, 0, 0, 0, 0
  if B then own, held, calls, flags, external = unpack_('<dddBd', B) end
  local spent = own + external
  if spent + nano > most or own + nano > 9007199254740991 then tight = tight or { 8, 0, spent, nano, most, index = n } end
  read[n], left = { of, B, own, held, calls, most, flags % 2 == 0 and name }, math.min(left or most, most - spent - nano)
end

-- Charges them, and returns which limit of the root would leave what the least of all leaves, where the root has spent so
-- much and may spend most.
branches = function(spent, most)
  for n = 1, count do
    local of, B, own, held, calls, limit, back = unpack(read[n])
    local figures, none = pack('<dddB', own + nano, held + nano, calls + 1, 1), 9007199254740991
    if B then -- one that a recovery has made has no limit yet
      call('SET', of, figures .. string.sub(B, 26, 33) .. pack('<d', limit) .. string.sub(B, 42, 65) .. pack('<d', now), 'KEEPTTL')
    else
      call('SET', of, figures .. pack('<dddddd', 0, limit, none, none, 0, now), 'PX', string.format('%.0f', (unpack_('<d', arg, 179))))
    end
    if back then -- the first call since a recovery: it lives, as one that branch.lua made does, also where there is no room for another
      local all, life = string.sub(key, 1, -2) .. 'v:x', unpack_('<d', arg, 179)
      call('ZADD', all, string.format('%.0f', now / 1000 + life), back)
      if call('PTTL', all) < life then call('PEXPIRE', all, string.format('%.0f', life)) end
    end
  end
  return left and math.min(most, spent + left) or most
end
