-- base_scopes: makes sub-scopes anew from what the journal adds up to. KEYS s. ARGV packed epoch and generation, test clock,
-- then for each sub-scope: its name (see scopes.lua), and its totals of own usage, each packed as base has them. Usage that
-- never asked and pending holds come after. Reply: '\0' done.
local epoch, generation = unpack_('<i8i8', ARGV[1])
local barred = fence(KEYS[1], epoch, generation)
if barred then return barred end
local t = load(KEYS[1])
if not t or t[1] ~= epoch then return '\10' end
local prefix, now, run = sub(KEYS[1], 1, -2), clock(ARGV[2], 0), cold(t)[33]
for i = 3, #ARGV, 2 do
  local u = made(prefix, epoch, ARGV[i], run, now)
  for p = 1, #ARGV[i + 1], 48 do
    local kind, window, nano, q, tin, tout = unpack_('<i8i8i8i8i8i8', ARGV[i + 1], p)
    count(u, floor(now / 1000000), kind, window, nano, q, tin, tout)
  end
  saveScope(u, now)
end
return '\0'
