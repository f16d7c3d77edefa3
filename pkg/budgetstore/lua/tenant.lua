-- tenant: makes a tenant's counters, all zero and not ready, or marks them ready. KEYS s. ARGV epoch (i8), verb (create
-- ready). Those of an earlier epoch are replaced. Reply: '\0' done, '\1' they were there.
local epoch = unpack_('<i8', ARGV[1])
local S = call('HGET', KEYS[1], '{')
if ARGV[2] == 'create' then
  if S and current(S, epoch) then return '\1' end
  if S and math.abs(unpack_('<d', S)) > epoch then return '\12' end
  if S then
    local prefix = sub(KEYS[1], 1, -2)
    call('DEL', KEYS[1], prefix .. 'd', prefix .. 'e', prefix .. 'o')
  end
  local still, now = zero(-epoch)
  call('HSET', KEYS[1], '{', still, '{n', now, '{c', rep('\0', COLD_SIZE))
  return '\0'
end
if not S then return '\10' end
if not current(S, epoch) then return '\12' end
call('HSET', KEYS[1], '{', pack('<d', epoch) .. sub(S, 9))
return '\0'
