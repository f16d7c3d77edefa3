-- In the place of store, in a batch: all is written at its end.
pending[2], pending[size + 1], pending[size + 2], pending[size + 3], pending[size + 4] = head, id, kept, hfield, head
size = size + 4
if x then later(xfield, x) end
for name, bytes in pairs(ring or {}) do later(name, bytes) end
leave(head, ring and ring['{'], id, xfield, x)
