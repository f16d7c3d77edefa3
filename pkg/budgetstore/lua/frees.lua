-- The second in which `need` of a figure (2 requests, 3 input, 4 output, 5 nano-dollars) has left the window that ends with
-- `second`; nil if all of the ring does not do.
local function frees(ring, figure, need, second, open)
  for at = 1, #ring, 25 do
    local f = { struct.unpack('<BI3i7i7i7', ring, at) }
    local s = open - (open - f[1]) % 256
    if s >= second - 60 and s < open then need = need - f[figure] end
    if need <= 0 then return s + 61 end
  end
end
