-- finish: settles, releases or expires holds of one tenant, at most 64, one after the other. KEYS s. ARGV for each: packed request, id,
-- the execution's field ("{x" and its root) as the caller knows it, or ''; then, only in tests, a clock. Reply for one hold:
-- '\0' and what it held, '\1' if it is not there; for several, a list of these.
-- Calls of Redis are what it costs, so state and holds are read once. What the usual ones change is added up and written
-- when all of it is known: HDEL and HSET, whether one was ended or many. Then tables: a single hold has none of those that
-- only several need.
local call, unpack_, pack, sub, MAX = redis.call, struct.unpack, struct.pack, string.sub, 9007199254740991
local key, last_ = KEYS[1], #ARGV - #ARGV % 3
local several = last_ > 3
local now, asked = #ARGV > last_ and tonumber(ARGV[#ARGV]), { '{', '{n', ARGV[2], '{h' .. ARGV[2], ARGV[3] }
for i = 4, last_, 3 do
  local n, id = i + 2, ARGV[i + 1]
  asked[n], asked[n + 1], asked[n + 2] = id, '{h' .. id, ARGV[i + 2] ~= ARGV[i - 1] and ARGV[i + 2] or '' -- each execution once
end
local f = call('HMGET', key, unpack(asked))
local S, N = f[1], f[2]
local ended, dropped, replies = several and {}, several and {}, several and {}
if not S then
  for i = 1, several and last_ / 3 or 0 do replies[i] = '\10' end
  return several and replies or '\10'
end
local e, extends, ma, expiring, bq, bi, bo, bn, dh, mh = unpack_('<ddI4I4I4ddddd', S) -- b: as the open second began
local last, sq, si, so, sn, da, dw, dx, mw, mx, running, first, told = unpack_('<dI4dddI4ddddI4dc33', N)
dh, mh = dh + (sn - bn), mh + (sn - bn)
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
local whole = (now - now % 1000000) / 1000000

-- The usual ones, without making the functions that all others need: open holds of today, with no sub-scopes. What is
-- remembered of them (see remember.lua) goes into key d before "{" names it, from its last place down.
local open, hashes, place, records = (last - last % 1000000) / 1000000, '', string.byte(S, 69) or 63, ''
local next_, late, xs, reply = 1, nil, nil, nil
while next_ <= last_ do
  local i = next_
  local epoch, at, nano, tin, tout, remembered, keeps, hash = unpack_('<dddddIBc6', ARGV[i])
  local id, kept, head = asked[i + 2], f[i + 2], f[i + 3]
  if e ~= epoch and e ~= -epoch then
    reply = '\12'
  elseif several and ended[id] or not kept and expiring == 0 or kept and unpack_('<d', head) ~= at then
    reply = '\1'
  elseif not kept then
    break
  else
    local day, n, ni, no = unpack_('<I4', head, 37), unpack_('<ddd', kept)
    local root, scoped = unpack_('<Bc0B', kept, 49)
    local own, held, x, used, xfield = 0, 0, nil, 0, nil
    if root ~= '' then
      xfield = '{x' .. root
      local X = xs and xs[xfield] or xfield == asked[i + 4] and f[i + 4] or call('HGET', key, xfield)
      if X then own, held, x, used = unpack_('<ddc49d', X) end
      if held <= 0 then break end
    end
    if keeps == 1 then nano, tin, tout = n, ni, no end
    local dn, second = nano - n, (at - at % 1000000) / 1000000
    local dw_, mw_, own_ = dw + dn, mw + dn, own + dn
    if day ~= da or (ma ~= day and ma ~= (day - day % 100) / 100) or scoped > 0 or dw_ >= MAX or mw_ >= MAX or own_ >= MAX
      or dw_ <= -MAX or mw_ <= -MAX or own_ <= -MAX then
      break
    end
    if second >= open - 60 then
      si, so, sn = si + tin - ni, so + tout - no, sn + dn
      if second < open then
        bi, bo, bn = bi + tin - ni, bo + tout - no, bn + dn
        local d = late and late[second]
        if d then
          d[1], d[2], d[3] = d[1] + tin - ni, d[2] + tout - no, d[3] + dn
        elseif late then
          late[second] = { tin - ni, tout - no, dn }
        else
          late = { [second] = { tin - ni, tout - no, dn } }
        end
      end
    end
    dw, mw = dw_, mw_
    dh = dh > n and dh - n or 0
    mh = mh > n and mh - n or 0
    running = running - 1
    if x then
      x = pack('<ddc49d', own_, held - n, x, now > used and now or used)
      if xs then xs[xfield] = x else xs = { [xfield] = x } end
    end
    if several then ended[id], dropped[#dropped + 1], dropped[#dropped + 2] = true, id, asked[i + 3] end
    hashes = hashes .. sub(hash, 1, 2)
    records = pack('<c4I3', sub(hash, 3), (whole + remembered) % 16777216) .. records
    if place == 0 then
      call('SETRANGE', sub(key, 1, -2) .. 'd', 0, records)
      records = ''
    end
    place = (place + 63) % 64
    reply = pack('<Bddd', 0, n, ni, no)
  end
  if several then replies[#replies + 1] = reply end
  next_ = i + 3
end
if hashes ~= '' then
  if records ~= '' then call('SETRANGE', sub(key, 1, -2) .. 'd', (place + 1) % 64 * 7, records) end
  S = pack('<ddI4I4I4dddddB', e, extends, ma, expiring, bq, bi, bo, bn, dh - (sn - bn), mh - (sn - bn), place)
    .. sub(S, math.max(70, #S + #hashes - 127)) .. hashes
  N = pack('<dI4dddI4ddddI4dc33', last, sq, si, so, sn, da, dw, dx, mw, mx, running, first, told)
  local list, n = { '{', S, '{n', N, nil, nil }, 4 -- room for an execution
  if late then -- by the second in which they were reserved
--#ring
--#splice
    local ring = {}
    for second, d in pairs(late) do
      local name, bytes = splice(function(name) return ring[name] or call('HGET', key, name) end, second, 0, d[1], d[2], d[3])
      ring[name] = bytes
    end
    for name, bytes in pairs(ring) do list[n + 1], list[n + 2], n = name, bytes, n + 2 end
  end
  if xs then
    for xfield, X in pairs(xs) do
      if unpack_('<d', X, 9) > 0 then
        list[n + 1], list[n + 2], n = xfield, X, n + 2
      else -- it holds nothing any more, see executions.lua
        dropped = dropped or { asked[3], asked[4] }
        dropped[#dropped + 1], dropped[#dropped + 2] = xfield, '{o'
        call('SET', sub(key, 1, -2) .. 'x:' .. sub(xfield, 3), X, 'XX', 'KEEPTTL')
      end
    end
  end
  if dropped then call('HDEL', key, unpack(dropped)) else call('HDEL', key, asked[3], asked[4]) end
  call('HSET', key, unpack(list, 1, n))
end

-- From the first one on that is not: each is written before the next.
if next_ <= last_ then
--#state
--#days
--#roll
--#charge
--#executions
--#scopes
--#remember
--#holds
  local t, prefix = parse(key, S, N), sub(key, 1, -2)
  for i = next_, last_, 3 do
    local epoch, at, nano, tin, tout, remembered, keeps, hash = unpack_('<dddddIBc6', ARGV[i])
    local id = ARGV[i + 1]
    local h
    reply = '\1'
    if t[1] ~= epoch then
      reply = '\12'
    elseif not several or not ended[id] then
      h = found(t, prefix, id, f[i + 2], f[i + 3])
    end
    if h and h.at == at then
      if keeps == 1 then nano, tin, tout = h.nano, h.tin, h.tout end
      finish(t, prefix, id, h, nano, tin, tout, hash, whole + remembered, now)
      save(t)
      t.changed, reply = {}, pack('<Bddd', 0, h.nano, h.tin, h.tout)
      if several then ended[id] = true end
    end
    if several then replies[#replies + 1] = reply end
  end
end
return several and replies or reply
