if ring then
  local list = { '{n', head, id, kept, hfield, head }
  if x then list[7], list[8] = xfield, x end
  for name, bytes in pairs(ring) do list[#list + 1], list[#list + 2] = name, bytes end
  call('HSET', key, unpack(list))
elseif x then
  call('HSET', key, '{n', head, id, kept, hfield, head, xfield, x)
else
  call('HSET', key, '{n', head, id, kept, hfield, head)
end
