-- The ring: what was reserved in each of the 60 seconds before the open one, 24 bytes each: requests (3), input, output,
-- nano-dollars (7 each), all 0 once it has left the window. Second s has place s modulo 60; a field has 30 of them, "{r0" and
-- "{r1", so that whoever changes one second rewrites little, and a missing or empty one is all 0.
local SECOND, NOTHING = '<I3i7i7i7', string.rep('\0', 720)

-- The field that a second is in, and its bytes. read returns a field.
local function field(read, second)
  local n = (second % 60 - second % 30) / 30 + 1
  local name = '{r' .. string.sub('01', n, n)
  local bytes = read(name)
  return name, bytes and bytes ~= '' and bytes or NOTHING
end

-- What was reserved in a second of a field.
local function reserved(bytes, second) return struct.unpack(SECOND, bytes, second % 30 * 24 + 1) end

-- A field with other bytes from a second on.
local function replaced(bytes, second, by)
  local at = second % 30 * 24
  return string.sub(bytes, 1, at) .. by .. string.sub(bytes, at + #by + 1)
end
