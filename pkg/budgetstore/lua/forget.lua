-- forget: forgets what was pending in an epoch, or before it. KEYS n. ARGV epoch (i8). Reply: '\0' done.
local of = call('HGET', KEYS[1], '{e')
if of and unpack_('<d', of) <= unpack_('<i8', ARGV[1]) then call('UNLINK', KEYS[1]) end
return '\0'
