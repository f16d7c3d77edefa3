-- base: makes a tenant's counters of an epoch anew, not ready, from what the journal adds up to. KEYS s. ARGV packed epoch,
-- generation (see fence.lua) and next journal offset, test clock, then for each total of own usage packed: kind (0 minute,
-- 1 day, 2 month), window, nano-dollars, requests, input, output; days and months in ascending order. Reply: '\0' done, '\1'
-- they are ready already.
local epoch, generation, offset = unpack_('<i8i8i8', ARGV[1])
local barred = fence(KEYS[1], epoch, generation)
if barred then return barred end
local s, prefix = KEYS[1], sub(KEYS[1], 1, -2)
call('DEL', s, prefix .. 'd', prefix .. 'e', prefix .. 'o')
local time = call('TIME')
local still, zeros = zero(-epoch)
call('HSET', s, '{', still, '{n', zeros,
  '{c', pack('<d', offset) .. rep('\0', COLD_SIZE - 24) .. pack('<dd', generation, time[1] * 1000000 + time[2]))
local t = load(s)
local now = clock(ARGV[2], 0)
local second = floor(now / 1000000)
t[4] = now
for i = 3, #ARGV do
  local kind, window, nano, q, tin, tout = unpack_('<i8i8i8i8i8i8', ARGV[i])
  count(t, second, kind, window, nano, q, tin, tout)
end
save(t)
return '\0'
