-- The second in which `need` of a figure (1 requests, 2 input, 3 output, 4 nano-dollars) has left the window that ends with
-- `second`, of which `open` is the last that is not in the ring; nil if all of the ring does not do.
local function frees(read, figure, need, second, open)
  local bytes
  for s = second - 60, open - 1 do
    if s == second - 60 or s % PART == 0 then bytes = select(2, field(read, s)) end
    need = need - select(figure, reserved(bytes, s))
    if need <= 0 then return s + 61 end
  end
end
