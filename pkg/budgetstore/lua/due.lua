-- due: moves holds whose lease has run out to `expiring`, which frees their concurrency, and lists what is expiring.
-- KEYS s l e. ARGV epoch (i8), most, test clock. Reply: id, hold, id, hold, ...
local S = call('GET', KEYS[1])
if not S then return '\10' end
local t = load(S)
if t[1] ~= unpack_('<i8', ARGV[1]) then return '\12' end
local prefix = sub(KEYS[1], 1, -2)
local now = clock(ARGV[3], t[4])
local due = call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for i = 1, #due, 2 do
  local id = due[i]
  call('ZREM', KEYS[2], id)
  if call('EXISTS', prefix .. 'h:' .. id) == 1 then
    call('SETRANGE', prefix .. 'h:' .. id, 0, '\1')
    call('ZADD', KEYS[3], due[i + 1], id)
  end
end
local list = {}
for _, id in ipairs(call('ZRANGE', KEYS[3], 0, tonumber(ARGV[2]) - 1)) do
  local H = call('GET', prefix .. 'h:' .. id)
  if H then
    list[#list + 1] = id
    list[#list + 1] = H
  else
    call('ZREM', KEYS[3], id) -- its key outlived its TTL: nothing is left to report
  end
end
return list
