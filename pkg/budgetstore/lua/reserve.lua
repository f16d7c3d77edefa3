-- reserve: decides on one reservation. KEYS s. ARGV packed request, id, what the hold keeps of the request (see
-- holds.lua), the execution's field ("{x" and its root, or '' without one); only where they are needed
-- test clock ('' in production) and branches and sub-scopes (see branched.lua). Reply: field "{n" as the call left it, or a
-- verdict byte and its figures (see reserve.go).
--
-- The usual call is TIME, one read and one write. What it costs is calls of Redis (about as much as all else together),
-- then bytes of Lua strings, because Redis' Lua hashes each byte of every string it makes, and closures. So nothing long
-- is concatenated, one packed string is at once state, hold and reply, and what only some calls need is made, read or
-- unpacked where they need it. A line "--#name" stands for the file of that name.
local call, unpack_, pack = redis.call, struct.unpack, struct.pack
local key, arg, id, xfield, at, scoped = KEYS[1], ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6]
local hfield = '{h' .. id
local epoch, caller, turns, lease, nano, tin, tout, lq, li, lo, lc, nc, dc, mc, s1, depth, label, mlabel, lx, hash =
  unpack_('<ddddddddddddddddI4I4I4c2', arg)
--#read
if not S then return '\10' end
local e, extends, ma, expiring = unpack_('<ddI4I4', S)
local last, sq, si, so, sn, da, dw, dx, mw, mx, running, first, told = unpack_('<dI4dddI4ddddI4dB', N)
if e ~= epoch then return e == -epoch and '\11' or '\12' end
if expiring >= 65536 then return '\14' end
local now = at and tonumber(at)
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if now <= last then now = last + 1 end

-- The same id again: the same answer while it is open, never a second hold.
if H then
  if string.sub(H, 33, 48) ~= string.sub(ARGV[3], 33, 48) then return '\3' end
  local head, ends = call('HGET', key, hfield), unpack_('<d', H, 25)
  if ends < 1e12 then ends = ends + unpack_('<d', head) end
  if ends > now then return '\1' .. head .. H end
  return '\4'
end
if expiring > 0 then
  H = call('HGET', string.sub(key, 1, -2) .. 'e', id)
  if H then return string.sub(H, 150, 165) ~= string.sub(ARGV[3], 33, 48) and '\3' or '\4' end
end
if #S > 68 then
  local from = string.find(S, hash, 70, true)
  while from do
    if from % 2 == 0 then
      local place = (string.byte(S, 69) + (#S + 1 - from) / 2) % 64 * 7
      local rest, until_ = unpack_('<c4I3', call('GETRANGE', string.sub(key, 1, -2) .. 'd', place, place + 6))
      local left = (until_ - (now - now % 1000000) / 1000000) % 16777216
      if rest == string.sub(arg, 143, 146) and left > 0 and left < 8388608 then return '\4' end
    end
    from = string.find(S, hash, from + 1, true)
  end
end
local skew = now - caller
if skew > 2000000 or skew < -2000000 then return '\13' end

-- Windows by the store's clock.
if now >= turns then label, mlabel = unpack_('<I4I4', arg, 147) end
if label ~= da or mlabel ~= ma then
--#state
--#days
  local t = parse(key, S, N)
  if not turn(t, label, mlabel) then return '\13' end
  save(t)
  dw, dx, ma, mw, mx = t[14], t[16], t[17], t[18], t[20]
  local both = call('HMGET', key, '{', '{n')
  S, N = both[1], both[2]
end
local us, was = now % 1000000, last % 1000000
local ring, dh, mh
if now - us ~= last - was then
--#roll
  local q, i, o, n, d, m = unpack_('<I4ddddd', S, 25)
  n = sn - n
  dh, mh = d + n, m + n
  sq, si, so, sn, ring = roll(function(name) return call('HGET', key, name) end, (last - was) / 1000000, (now - us) / 1000000,
    sq - q, si - i, so - o, n, sq, si, so, sn)
end
local dused, mused, outside = dw + dx, mw + mx, 0
if now < extends * 1000000 then
--#minutes
  outside = minutes(key, (now - us) / 1000000)
end
local nused = sn + outside

-- The rung, from what was used before this call. It picks the price, and what a write is told.
local rung, barred, saving = 0, nil, false
if dused >= s1 then
  local s2, s3, more = unpack_('<ddB', arg, 187)
  rung = dused >= s3 and 3 or dused >= s2 and 2 or 1
  if rung > 1 then
    if more % 2 == 1 then barred = rung + 5 end
    if more > 1 then
      nano, tin, tout = unpack_('<ddd', arg, 204)
      saving = true
    end
  end
end

-- The execution: its own limits once they are known, else the caller's.
local xown, xheld, xc, flags, xext, xversion = 0, 0, 0, 0, 0, 0
local xcost, xdepth, xcalls = 9007199254740991, 9007199254740991, 9007199254740991
if xfield ~= '' then
  if not X then X = call('GET', string.sub(key, 1, -2) .. 'x:' .. string.sub(xfield, 3)) end
  if X then xown, xheld, xc, flags, xext, xcost, xdepth, xcalls, xversion = unpack_('<dddBddddd', X) end
  if flags % 2 == 0 then xcost, xdepth, xcalls = unpack_('<ddd', arg, 155) end
end

-- Sub-scopes: what is used of theirs, the first of their ceilings that can never be met, and the first that is not met now.
-- Branches of the execution: the first whose limit is not met.
local scopes, branches, never, full, tight
if scoped then
--#branched
  if p <= #scoped then
--#state
--#days
--#roll
--#charge
--#minutes
--#scopes
--#scoped
  end
end

-- Limits, the one that must not be retried first. admit.Decide states the same order.
local spent = xown + xext
local q, ti, to = sq + 1, si + tin, so + tout
local code, limit, window, used, asked, ceiling, by
if flags % 4 > 1 then code, limit, window, used, asked, ceiling = 6, 11, 0, 0, 0, 0
elseif nano > mc then code, limit, window, used, asked, ceiling = 3, 7, mlabel, 0, nano, mc
elseif nano > dc then code, limit, window, used, asked, ceiling = 3, 6, label, 0, nano, dc
elseif nano > nc then code, limit, window, used, asked, ceiling = 3, 5, 0, 0, nano, nc
elseif tin > li then code, limit, window, used, asked, ceiling = 3, 2, 0, 0, tin, li
elseif tout > lo then code, limit, window, used, asked, ceiling = 3, 3, 0, 0, tout, lo
elseif never then by, code, limit, window, used, asked, ceiling = never, 3, unpack(never)
elseif depth > xdepth then code, limit, window, used, asked, ceiling = 5, 9, 0, depth, 0, xdepth
elseif spent + nano > xcost or xown + nano > 9007199254740991 then code, limit, window, used, asked, ceiling = 4, 8, 0, spent, nano, xcost
elseif tight then by, code, limit, window, used, asked, ceiling = tight, 4, unpack(tight)
elseif xc + 1 > xcalls then code, limit, window, used, asked, ceiling = 4, 10, 0, xc, 1, xcalls
elseif mused + nano > mc or mw + nano > 9007199254740991 then code, limit, window, used, asked, ceiling = 2, 7, mlabel, mused, nano, mc
elseif dused + nano > dc or dw + nano > 9007199254740991 then code, limit, window, used, asked, ceiling = 2, 6, label, dused, nano, dc
elseif nused + nano > nc then code, limit, window, used, asked, ceiling = 2, 5, 0, nused, nano, nc
elseif full then by, code, limit, window, used, asked, ceiling = full, 2, unpack(full)
elseif barred then code, limit, window, used, asked, ceiling = barred, 11, 0, 0, 0, 0
elseif q > lq then code, limit, window, used, asked, ceiling = 1, 1, 0, sq, 1, lq
elseif ti > li then code, limit, window, used, asked, ceiling = 1, 2, 0, si, tin, li
elseif to > lo then code, limit, window, used, asked, ceiling = 1, 3, 0, so, tout, lo
elseif running >= lc then
  if now >= first then
--#sweep
    local moved
    moved, first = sweep(key, string.sub(key, 1, -2) .. 'e', now)
    running, expiring = running - moved, expiring + moved
    call('HSET', key, '{', string.sub(S, 1, 20) .. pack('<I4', expiring) .. string.sub(S, 25),
      '{n', string.sub(N, 1, 72) .. pack('<I4d', running, first) .. string.sub(N, 85))
  end
  if running >= lc then code, limit, window, used, asked, ceiling = 1, 4, 0, running, 1, lc end
end

local opens = lx > 0 and flags < 8 and xfield ~= ''
if opens and not code then
--#opened
  local n = opened(key, now)
  if n >= lx then code, limit, window, used, asked, ceiling = 1, 12, 0, n, 1, lx end
end

if code then
  -- When the same would fit by time alone: when a lease may end, the second in which enough has left the window, or the day
  -- with which enough leaves the last 30.
  local need, free = used + asked - ceiling, 0
  if limit == 4 then
    free = first
  elseif limit ~= 12 and code == 1 or (code == 2 and limit == 5) then
--#ring
--#frees
    local second, open, extends_ = (now - us) / 1000000, (last - was) / 1000000, outside > 0 and extends
    local function read(name) return ring and ring[name] or call('HGET', key, name) end
    if by then -- its seconds are closed, but not stored
      read, open, extends_ = by.read, second, now < by.state[3] * 1000000 and by.state[3]
    end
    free = (frees(read, limit == 5 and 4 or limit, need, second, open) or (limit == 5 and extends_ or open + 61)) * 1000000
  elseif code == 2 and limit == 7 and mlabel > 9999999 then
--#state
--#days
    window = leaves(by and by.state or parse(key, S, N), need)
  end
  return pack('<BBBi8i8i8i8i8i8i8B', 2, code, limit, now, free, window, used, asked, ceiling, dused, by and by.index or 0)
end

-- Everything fits: charge it.
local ends = now + lease
if running == 0 or ends < first then first = ends end
local x
if xfield ~= '' then
  xown, xc = xown + nano, xc + 1
  x = pack('<dddBdddddd', xown, xheld + nano, xc, (opens or flags > 7) and 9 or 1, xext, xcost, xdepth, xcalls, xversion, now)
  if opens then call('SADD', string.sub(key, 1, -2) .. 'o', string.sub(xfield, 3)) end
  if not X then -- its token says that it was started, so it is known, whatever room there is; see executions.lua
    local root, all, life = string.sub(xfield, 3), string.sub(key, 1, -2) .. 'v:r', unpack_('<d', arg, 179)
    call('SET', string.sub(key, 1, -2) .. 'x:' .. root, x, 'PX', string.format('%.0f', life))
    call('ZADD', all, string.format('%.0f', now / 1000 + life), root)
    if call('PTTL', all) < life then call('PEXPIRE', all, string.format('%.0f', life)) end
  end
end
local kept = ARGV[3]
if saving then kept = pack('<ddd', nano, tin, tout) .. string.sub(kept, 25) end
if scopes then kept = scopes(kept) end
if branches then xcost = branches(xown + xext, xcost) end
if ring then ring['{'] = pack('<ddI4I4I4ddddd', e, extends, ma, expiring, sq, si, so, sn, dh, mh) .. string.sub(S, 69) end
local head = pack('<dI4dddI4ddddI4dBdddd', now, q, ti, to, sn + nano, label, dw + nano, dx, mw + nano, mx, running + 1, first,
  rung + told % 8 * 8 + (saving and 64 or 0), outside, xown + xext, xc, xcost)
--#store
return head
