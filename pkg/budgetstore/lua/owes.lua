-- owes: whether a tenant has something for due. KEYS s. ARGV now (µs). Reply 1 or 0.
local t = load(KEYS[1])
if t and (t[23] > 0 or (t[21] > 0 and t[22] <= tonumber(ARGV[1]))) then return 1 end
return 0
