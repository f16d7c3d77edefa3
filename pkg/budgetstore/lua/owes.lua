-- owes: whether a tenant has something for due. KEYS s. ARGV now (µs). Reply 1 or 0.
local S = call('HGET', KEYS[1], '{')
if not S then return 0 end
local running, first, expiring = unpack_('<I4dI4', S, 137)
if expiring > 0 or (running > 0 and first <= tonumber(ARGV[1])) then return 1 end
return 0
