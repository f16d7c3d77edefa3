-- Holds and what they are charged to: for all scripts that change or end one. An open hold is two fields of key s:
--   "{h<id>"  field "{" as the reservation left it: the answer is made from it
--   "<id>"    doubles held nano-dollars, input, output, lease end (µs; below 1e12: counted from the reservation);
--             16 bytes fingerprint; the root execution's name (length byte first); the rest is the caller's
-- An expiring one is a single field of key e, the two in this order.
local ROOT_AT = 49

-- Reads the hold of an id, open or expiring; nil if there is none.
local function find(t, prefix, id)
  local f = call('HMGET', prefix .. 's', id, '{h' .. id)
  local kept, head, open = f[1], f[2], true
  if not kept then
    local both = t[23] > 0 and call('HGET', prefix .. 'e', id)
    if not both then return nil end
    head, kept, open = sub(both, 1, HEAD_SIZE), sub(both, HEAD_SIZE + 1), false
  end
  local h = { kept = kept, open = open, at = unpack_('<d', head, 17), day = unpack_('<I4', head, 81), month = unpack_('<I4', head, 109) }
  h.nano, h.tin, h.tout, h.ends = unpack_('<dddd', kept)
  if h.ends < 1e12 then h.ends = h.at + h.ends end
  h.root = sub(kept, ROOT_AT + 1, ROOT_AT + unpack_('<B', kept, ROOT_AT))
  return h
end

-- Adds to the ring at second b: to the open second, to one of the 60 before it, or nowhere if it has left the window.
local function charge(t, s, b, q, i, o, n)
  local open = floor(t[4] / 1000000)
  if b > open or b < open - 60 then return end
  t[9], t[10], t[11], t[12] = t[9] + q, t[10] + i, t[11] + o, t[12] + n
  if b == open then
    t[5], t[6], t[7], t[8] = t[5] + q, t[6] + i, t[7] + o, t[8] + n
    return
  end
  local ring = ringOf(t, s)
  local at = #ring - 31
  while at > 0 and unpack_('<I4', ring, at) > b do at = at - 32 end
  local rest = at
  if at > 0 then
    local second, wq, wi, wo, wn = unpack_('<I4I4ddd', ring, at)
    if second == b then q, i, o, n = q + wq, i + wi, o + wo, n + wn else rest = at + 32 end
  else
    rest = 1
  end
  t.ring = sub(ring, 1, rest - 1) .. pack('<I4I4ddd', b, q, i, o, n) .. sub(ring, at + 32)
end

-- Adds to own and held of a window, if it is still kept.
local function own(t, a, b, c, label, nano, held)
  local i
  if t[a] == label then i = a elseif t[b] == label then i = b elseif t[c] == label then i = c else return end
  t[i + 1], t[i + 2] = bounded(t[i + 1] + nano), t[i + 2] + held
end

-- Ends a hold: what it holds becomes the actual, in the windows where it was reserved. Its request and its call stay
-- counted. The id is remembered for a while, the last 64 of a tenant.
local function finish(t, prefix, id, h, nano, tin, tout, hash, until_, now)
  local dn, s = nano - h.nano, prefix .. 's'
  own(t, 13, 24, 28, h.day, dn, -h.nano)
  own(t, 17, 32, 36, h.month, dn, -h.nano)
  charge(t, s, floor(h.at / 1000000), 0, tin - h.tin, tout - h.tout, dn)
  spend(prefix, h.root, dn, -h.nano, now)
  if h.open then
    t[21] = t[21] - 1
    call('HDEL', s, id, '{h' .. id)
  else
    t[23] = t[23] - call('HDEL', prefix .. 'e', id)
  end
  local f = call('HMGET', s, '{d', '{f')
  call('HSET', s, '{d', sub(f[1] or '', -504) .. pack('<c4I4', sub(hash, 3), until_), '{f', sub(f[2] or '', -126) .. sub(hash, 1, 2))
end
