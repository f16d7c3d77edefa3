-- due: moves holds whose lease has run out to `expiring`, which frees their concurrency, and lists what is expiring.
-- KEYS s e. ARGV epoch (i8), most, test clock. Reply: id, hold, id, hold, ...
local t = load(KEYS[1])
if not t then return '\10' end
if t[1] ~= unpack_('<i8', ARGV[1]) then return '\12' end
local now = clock(ARGV[3], t[4])
if t[21] > 0 and now >= t[22] then
  local moved
  moved, t[22] = sweep(KEYS[1], KEYS[2], now)
  t[21], t[23] = t[21] - moved, t[23] + moved
  save(t)
end
local list, most, cursor = {}, tonumber(ARGV[2]) * 2, '0'
if t[23] == 0 then return list end
repeat
  local page = call('HSCAN', KEYS[2], cursor, 'COUNT', ARGV[2])
  cursor = page[1]
  for _, s in ipairs(page[2]) do
    if #list < most then list[#list + 1] = s end
  end
until cursor == '0' or #list >= most
return list
