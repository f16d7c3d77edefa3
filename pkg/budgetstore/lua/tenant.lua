-- tenant: makes a tenant's counters, all zero and not ready, or marks them ready. KEYS s r. ARGV epoch (i8), verb (create
-- ready). Reply: '\0' done, '\1' they were there.
local epoch = unpack_('<i8', ARGV[1])
local S = call('GET', KEYS[1])
if ARGV[2] == 'create' then
  if S then
    if unpack_('<d', S) ~= epoch then return '\12' end
    return '\1'
  end
  call('SET', KEYS[1], pack('<d', epoch) .. rep('\0', 600))
  call('SET', KEYS[2], rep('\0', 1952))
  return '\0'
end
if not S then return '\10' end
if unpack_('<d', S) ~= epoch then return '\12' end
call('SETRANGE', KEYS[1], 8, pack('<d', 1))
return '\0'
