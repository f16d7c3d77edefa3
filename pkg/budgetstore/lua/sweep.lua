-- Moves the holds whose lease has run out from s to e (nil: only counts them). Returns how many, and the earliest lease end of the others (0:
-- none). It reads every open hold, so it is only called when a lease may have ended: field 22 is a lower bound, which
-- settled calls leave behind and a sweep makes exact. So that is once in about the length of a lease.
local function sweep(s, e, now)
  local all, moved, first, heads = redis.call('HGETALL', s), 0, 0, {}
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == '{h' then heads[string.sub(all[i], 3)] = all[i + 1] end
  end
  for i = 1, #all, 2 do
    local id, head = all[i], heads[all[i]]
    if head then
      local ends = struct.unpack('<d', all[i + 1], 25)
      if ends < 1e12 then ends = ends + struct.unpack('<d', head) end
      if ends <= now then
        if e then
          redis.call('HSET', e, id, head .. all[i + 1])
          redis.call('HDEL', s, id, '{h' .. id)
        end
        moved = moved + 1
      elseif first == 0 or ends < first then
        first = ends
      end
    end
  end
  return moved, first
end
