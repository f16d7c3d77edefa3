-- The reference: a sliding window as a sorted set, one member per call. KEYS calls leases. ARGV now (µs), id, nano-dollars,
-- input, output, limits for calls, nano-dollars, input, output, concurrency, lease (µs). Every member is read and summed;
-- a member is three packed numbers and the id, the form that is fastest to sum.
local now, nano, tin, tout = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1] - 60000000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[1])
local unpack_, n, i, o = struct.unpack, nano, tin, tout
local calls = redis.call('ZRANGE', KEYS[1], 0, -1)
for k = 1, #calls do
  local a, b, c = unpack_('<ddd', calls[k])
  n, i, o = n + a, i + b, o + c
end
if #calls + 1 > tonumber(ARGV[6]) or n > tonumber(ARGV[7]) or i > tonumber(ARGV[8]) or o > tonumber(ARGV[9])
  or redis.call('ZCARD', KEYS[2]) + 1 > tonumber(ARGV[10]) then
  return 0
end
redis.call('ZADD', KEYS[1], ARGV[1], struct.pack('<ddd', nano, tin, tout) .. ARGV[2])
redis.call('ZADD', KEYS[2], now + ARGV[11], ARGV[2])
return 1
