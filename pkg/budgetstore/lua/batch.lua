-- batch: decides on several reservations of one tenant, one after the other, each as reserve would. KEYS s. ARGV for each:
-- packed request, id, what its hold keeps, the execution's field, branches and sub-scopes ('' without); then, only in tests,
-- a clock. Reply: those of reserve.
-- What reading the clock and the state costs is shared. Each writes for itself, all at once, so that a call which fails in
-- the middle leaves whole reservations behind.
local last_ = #ARGV - #ARGV % 5
local known, now = {}, #ARGV > last_ and tonumber(ARGV[#ARGV])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

local function decide(KEYS, ARGV)
--#reserve
end

local replies = {}
for i = 1, last_, 5 do
  local scopes = ARGV[i + 4]
  local reply = decide(KEYS, { ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], now, scopes ~= '' and scopes or nil })
  known.S = #reply == 185 and reply or nil
  replies[#replies + 1] = reply
end
return replies
