-- Remembers that an id has ended, as one of the tenant's last 64. The end of field "{", at first '', is what a reservation
-- reads of them: the place in key d that is used next (1 byte), then the first 2 bytes of each one's hash, oldest first. Key
-- d has at each of 64 places the other 4, and 3 for the second until which the id is remembered; only what that end points
-- at means anything. So whoever ends a hold rewrites few bytes. The last place comes first: the string then has its whole
-- length from the start, and Redis reserves no more for it. Returns the new end of the field.
local function remember(key, F, hash, until_)
  local at = string.byte(F) or 63
  redis.call('SETRANGE', string.sub(key, 1, -2) .. 'd', at * 7, struct.pack('<c4I3', string.sub(hash, 3), until_ % 16777216))
  return string.char((at + 63) % 64) .. string.sub(F, #F > 128 and 4 or 2) .. string.sub(hash, 1, 2)
end
