-- The ring: what was reserved in each of the 60 seconds before the open one, 24 bytes each: requests (3), input, output,
-- nano-dollars (7 each), all 0 once it has left the window. Second s has place s modulo 60; a field has 15 of them, "{r0" to
-- "{r3", so that whoever changes one second reads and rewrites little. A missing or empty field is all 0.
local SECOND, PART = '<I3i7i7i7', 15
-- A second in which nothing was reserved. Many are made of it, because string.rep goes byte by byte, 45 instructions for each
-- one of a unit of one, 10 of this: of a reservation that is the first in some seconds or in minutes 3 to 6 %.
local NONE = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

-- The field that a second is in, and its bytes. read returns a field.
local function field(read, second)
  local n = (second % 60 - second % PART) / PART + 1
  local name = '{r' .. string.sub('0123', n, n)
  return name, read(name) or ''
end

-- What was reserved in a second of a field.
local function reserved(bytes, second)
  if bytes == '' then return 0, 0, 0, 0 end
  return struct.unpack(SECOND, bytes, second % PART * 24 + 1)
end

-- A field with other bytes from a second on.
local function replaced(bytes, second, by)
  local at = second % PART * 24
  if bytes == '' then bytes = string.rep(NONE, PART) end
  return string.sub(bytes, 1, at) .. by .. string.sub(bytes, at + #by + 1)
end
