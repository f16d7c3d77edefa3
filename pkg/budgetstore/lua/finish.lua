-- finish: settle, release or expire one hold. KEYS s. ARGV packed request, id, the execution's field ("{x" and its root) as
-- the caller knows it, or '', test clock. Reply: '\0' and what it held, '\1' if it is not there.
local call, unpack_, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local key, id, hfield = KEYS[1], ARGV[2], '{h' .. ARGV[2]
local epoch, at, nano, tin, tout, remembered, keeps, hash = unpack_('<dddddIBc6', ARGV[1])
local f = call('HMGET', key, '{', id, hfield, '{f', ARGV[3]) -- all at once: calls of Redis are what it costs
local S, kept, head = f[1], f[2], f[3]
if not S then return '\10' end
local e, extends, last, oq, oi, oo, on, sq, si, so, sn, da, dw, dh, dx, ma, mw, mh, mx, running, first, expiring, told =
  unpack_('<dddI4dddI4dddI4dddI4dddI4dI4c33', S)
if e ~= epoch and e ~= -epoch then return '\12' end
local now = tonumber(ARGV[4])
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
local until_ = (now - now % 1000000) / 1000000 + remembered
--#remember

-- The usual one, without making the functions that all others need: an open hold of today, with no sub-scopes.
if kept then
  if unpack_('<d', head, 17) ~= at then return '\1' end
  local day, n, i, o = unpack_('<I4', head, 81), unpack_('<ddd', kept)
  local root = unpack_('<Bc0', kept, 49)
  local xfield, second, open = '{x' .. root, (at - at % 1000000) / 1000000, (last - last % 1000000) / 1000000
  local inside, late = second >= open - 60, second < open
  local an, ai, ao = nano, tin, tout
  if keeps == 1 then an, ai, ao = n, i, o end
  local X, ring, dn, own, held, x, used = f[5], nil, an - n, 0, 0, nil, 0
  if root ~= '' and xfield ~= ARGV[3] then X = call('HGET', key, xfield) end
  if X then own, held, x, used = unpack_('<ddc49d', X) end
  local most = math.max(math.abs(dw + dn), math.abs(mw + dn), math.abs(own + dn))
  local plain = day == da and (ma == day or ma == (day - day % 100) / 100) and unpack_('<B', kept, 50 + #root) == 0
  if plain and most < 9007199254740991 and (X or root == '') then
    if inside then
      si, so, sn = si + ai - i, so + ao - o, sn + dn
      if late then
--#splice
        ring = splice(call('HGET', key, '{r') or '', open, second, 0, ai - i, ao - o, dn)
      else
        oi, oo, on = oi + ai - i, oo + ao - o, on + dn
      end
    end
    local list = { '{', pack('<dddI4dddI4dddI4dddI4dddI4dI4c33', e, extends, last, oq, oi, oo, on, sq, si, so, sn, da, dw + dn,
      math.max(dh - n, 0), dx, ma, mw + dn, math.max(mh - n, 0), mx, running - 1, first, expiring, told),
      '{f', remember(key, f[4], hash, until_) }
    if ring then list[5], list[6] = '{r', ring end
    if x then x = pack('<ddc49d', own + dn, held - n, x, math.max(now, used)) end
    if x and held > n then
      list[#list + 1], list[#list + 2] = xfield, x
      call('HDEL', key, id, hfield)
    elseif x then -- it holds nothing any more, see executions.lua
      call('HDEL', key, id, hfield, xfield, '{o')
      call('SET', sub(key, 1, -2) .. 'x:' .. root, x, 'XX', 'KEEPTTL')
    else
      call('HDEL', key, id, hfield)
    end
    call('HSET', key, unpack(list))
    return pack('<Bddd', 0, n, i, o)
  end
end
--#state
--#days
--#roll
--#charge
--#executions
--#scopes
--#holds
local t, prefix = parse(key, S), sub(key, 1, -2)
t.fields['{f'] = f[4] or ''
local h = found(t, prefix, id, kept, head)
if not h or h.at ~= at then return '\1' end
if keeps == 1 then nano, tin, tout = h.nano, h.tin, h.tout end
finish(t, prefix, id, h, nano, tin, tout, hash, until_, now)
save(t)
return pack('<Bddd', 0, h.nano, h.tin, h.tout)
