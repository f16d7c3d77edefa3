-- Adds to one of the 60 seconds before the open one. Returns its field and what that is now.
local function splice(read, second, q, i, o, n)
  local name, bytes = field(read, second)
  local wq, wi, wo, wn = reserved(bytes, second)
  return name, replaced(bytes, second, struct.pack(SECOND, q + wq, i + wi, o + wo, n + wn))
end
