-- Dollars of usage that never asked, of every calendar minute that ended less than 60 s ago, or has not ended. A minute
-- whose corrections exceed its usage counts as 0: what it corrects may have left the window.
local function minutes(key, second)
  local c, sum = redis.call('HGET', key, '{c'), 0
  if not c then return 0 end
  local m = { struct.unpack('<I4ddI4ddI4ddI4ddI4ddI4ddI4ddI4dd', c, 45) }
  for i = 1, 22, 3 do
    if m[i] + 120 > second and m[i + 1] > 0 then sum = sum + m[i + 1] end
  end
  return sum > 9007199254740991 and 9007199254740991 or sum
end
