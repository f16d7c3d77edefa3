-- How many root executions are open, of those that a limit counts: set o. Those that hold nothing and were last used 15
-- minutes ago are closed first. Field "{o" is when the next of them can be at that point, so most calls look at none:
-- whatever ends an execution's last hold drops it.
local function opened(key, now)
  local prefix, unpack_, call = string.sub(key, 1, -2), struct.unpack, redis.call
  local bound = call('HGET', key, '{o')
  if bound and unpack_('<d', bound) > now then return call('SCARD', prefix .. 'o') end
  local earliest = 9007199254740991
  for _, root in ipairs(call('SMEMBERS', prefix .. 'o')) do
    if call('HEXISTS', key, '{x' .. root) == 0 then
      local X = call('GET', prefix .. 'x:' .. root)
      local idle = X and unpack_('<d', X, 66) + 900000000
      if X and idle > now then
        if idle < earliest then earliest = idle end
      else
        call('SREM', prefix .. 'o', root)
        if X then call('SETRANGE', prefix .. 'x:' .. root, 24, struct.pack('<B', unpack_('<B', X, 25) - 4)) end
      end
    end
  end
  call('HSET', key, '{o', struct.pack('<d', earliest))
  return call('SCARD', prefix .. 'o')
end
