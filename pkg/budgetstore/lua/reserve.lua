-- reserve: decides on one reservation. KEYS s h d e r [x]. ARGV packed request, root, context, test clock, id, TTL of a
-- new execution (ms). Reply: a verdict byte and its figures (see reply.go).
local epoch, caller, lease, nano, tin, tout, lq, li, lo, lc, nl, nc, dl, dc, ml, mc, s1, s2, s3,
  day, dends, dnext, month, mends, mnext, depth, xcost, xdepth, xcalls, hash, print =
  unpack_('<i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8c8c16', ARGV[1])
local root = ARGV[2]
local v
if root == '' then v = call('MGET', KEYS[1], KEYS[3]) else v = call('MGET', KEYS[1], KEYS[3], KEYS[6]) end
local S, D, X = v[1], v[2], v[3]
if not S then return '\10' end
local e, ready, extends, last, oq, oi, oo, on, sq, si, so, sn, da, dw, dh, dx, ma, mw, mh, mx, running, first, expiring =
  unpack_(HEAD, S)
if e ~= epoch then return '\12' end
if ready ~= 1 then return '\11' end
if expiring >= 65536 then return '\14' end
local now = clock(ARGV[4], last + 1)

-- The same id again: the same answer while it is open, never a second hold.
local id = ARGV[5]
local H = call('HGET', KEYS[2], id)
if not H and expiring > 0 then H = call('HGET', KEYS[4], id) end
if H then
  if sub(H, 2, 17) ~= print then return '\3' end
  local state, _, ends = unpack_('<Bc16i8', H)
  if state == 0 and ends > now then return '\1' .. H end
  return '\4'
end
if D then
  local at = string.find(D, hash, 1, true)
  while at do
    if at % 12 == 1 and unpack_('<I4', D, at + 8) * 1000000 > now then return '\4' end
    at = string.find(D, hash, at + 1, true)
  end
end
local skew = now - caller
if skew > 2000000 or skew < -2000000 then return '\13' end

-- Windows by the store's clock.
local label, mlabel = day, month
if now >= dends then label = dnext end
if now >= mends then mlabel = mnext end
local T
if label ~= da or mlabel ~= ma then
  T = { unpack_(ALL, S) }
  local slot, swap = windows()
  local i, j = slot(T, 13, 24, 28, label), slot(T, 17, 32, 36, mlabel)
  if not i or not j then return '\13' end
  swap(T, 13, i)
  swap(T, 17, j)
  dw, dh, dx, mw, mh, mx = T[14], T[15], T[16], T[18], T[19], T[20]
end
local second, open = floor(now / 1000000), floor(last / 1000000)
local at1, new1, at2, new2
if second ~= open then
  local _, _, _, roll = windows()
  sq, si, so, sn, at1, new1, at2, new2 = roll(KEYS[5], open, second, oq, oi, oo, on, sq, si, so, sn)
  oq, oi, oo, on = 0, 0, 0, 0
end
local ext = 0
if second < extends then ext = select(3, windows())(S, second) end
local dused, mused, nused = dw + dx, mw + mx, sn + ext


-- Limits, the one that must not be retried first. admit.Decide states the same order.
local xown, xheld, xc, known, revoked, closed, xext = 0, 0, 0, 0, 0, 0, 0
if root == '' then
  xcost, xdepth, xcalls = MAX, MAX, MAX
elseif X then
  local c, d, n
  xown, xheld, xc, known, revoked, closed, xext, c, d, n = unpack_('<dddddddddd', X)
  if known == 1 then xcost, xdepth, xcalls = c, d, n end
end
local spent = xown + xext
local code, limit, window, used, asked, ceiling
if revoked == 1 then code, limit, window, used, asked, ceiling = 6, 11, 0, 0, 0, 0
elseif nano > mc then code, limit, window, used, asked, ceiling = 3, 7, mlabel, 0, nano, mc
elseif nano > dc then code, limit, window, used, asked, ceiling = 3, 6, label, 0, nano, dc
elseif nano > nc then code, limit, window, used, asked, ceiling = 3, 5, 0, 0, nano, nc
elseif tin > li then code, limit, window, used, asked, ceiling = 3, 2, 0, 0, tin, li
elseif tout > lo then code, limit, window, used, asked, ceiling = 3, 3, 0, 0, tout, lo
elseif depth > xdepth then code, limit, window, used, asked, ceiling = 5, 9, 0, depth, 0, xdepth
elseif spent + nano > xcost or xown + nano > MAX then code, limit, window, used, asked, ceiling = 4, 8, 0, spent, nano, xcost
elseif xc + 1 > xcalls then code, limit, window, used, asked, ceiling = 4, 10, 0, xc, 1, xcalls
elseif mused + nano > mc or mw + nano > MAX then code, limit, window, used, asked, ceiling = 2, 7, mlabel, mused, nano, mc
elseif dused + nano > dc or dw + nano > MAX then code, limit, window, used, asked, ceiling = 2, 6, label, dused, nano, dc
elseif nused + nano > nc then code, limit, window, used, asked, ceiling = 2, 5, 0, nused, nano, nc
elseif sq + 1 > lq then code, limit, window, used, asked, ceiling = 1, 1, 0, sq, 1, lq
elseif si + tin > li then code, limit, window, used, asked, ceiling = 1, 2, 0, si, tin, li
elseif so + tout > lo then code, limit, window, used, asked, ceiling = 1, 3, 0, so, tout, lo
elseif running + 1 > lc then
  if now >= first then
    local moved
    moved, first = select(5, windows())(KEYS[2], KEYS[4], now)
    running, expiring = running - moved, expiring + moved
    call('SETRANGE', KEYS[1], '160', pack('<ddd', running, first, expiring))
  end
  if running + 1 > lc then code, limit, window, used, asked, ceiling = 1, 4, 0, running, 1, lc end
end

if code then
  -- When the same would fit by time alone: when a lease may end, or the second in which enough has left the window.
  local frees = 0
  if limit == 4 then
    frees = first
  elseif code == 1 or (code == 2 and limit == 5) then
    local which, need = limit == 5 and 4 or limit, used + asked - ceiling
    local ring = call('GETRANGE', KEYS[5], '0', '1951')
    for s = second - 60, open - 1 do
      local at = (s % 61) * 32 + 1
      if at + 31 <= #ring then need = need - (select(which, unpack_('<dddd', ring, at))) end
      if need <= 0 then
        frees = (s + 61) * 1000000
        break
      end
    end
    if frees == 0 then frees = (which == 4 and ext > 0 and extends or open + 61) * 1000000 end
  end
  return pack('<BBBi8i8i8i8i8i8i8', 2, code, limit, now, frees, window, used, asked, ceiling, dused)
end

-- Everything fits: charge it.
local rung = 0
if dused >= s1 then rung = 1 end
if dused >= s2 then rung = 2 end
if dused >= s3 then rung = 3 end
local ends = now + lease
local left = -1
if root ~= '' then
  if xcost < MAX then left = xcost - (spent + nano) end
  xown, xheld, xc = xown + nano, xheld + nano, xc + 1
  if X and known == 1 and closed == 0 then
    call('SETRANGE', KEYS[6], '0', pack('<ddd', xown, xheld, xc))
  elseif X then
    call('SETRANGE', KEYS[6], '0', pack('<dddddddddd', xown, xheld, xc, 1, 0, 0, xext, xcost, xdepth, xcalls))
  else
    call('SET', KEYS[6], pack('<ddddddddddd', xown, xheld, xc, 1, 0, 0, 0, xcost, xdepth, xcalls, 0), 'PX', ARGV[6])
  end
end
local answer = pack('<i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8', now, ends, label, mlabel, nano, tin, tout, rung, dused, dl,
  nl - nused - nano, dl - dused - nano, ml - mused - nano, lq - sq - 1, li - si - tin, lo - so - tout, lc - running - 1,
  xown + xext, left, xc, depth)
call('HSET', KEYS[2], id, pack('<Bc16i8i8i8i8', 0, print, ends, nano, tin, tout) .. answer .. pack('<B', #root) .. root .. ARGV[3])
if running == 0 or ends < first then first = ends end
if new1 then
  if at1 == 0 and #new1 == 1952 then call('SET', KEYS[5], new1) else call('SETRANGE', KEYS[5], at1, new1) end
  if new2 then call('SETRANGE', KEYS[5], '0', new2) end
end
local head = pack('<dddddddddddddddddddd', now, oq + 1, oi + tin, oo + tout, on + nano, sq + 1, si + tin, so + tout, sn + nano,
  label, dw + nano, dh + nano, dx, mlabel, mw + nano, mh + nano, mx, running + 1, first, expiring)
if T then head = head .. pack('<dddddddddddddddd', unpack(T, 24, 39)) end
call('SETRANGE', KEYS[1], '24', head)
return '\0' .. answer
