-- Holds and what they are charged to: for all scripts that change or end one. A hold is
--   byte state (0 open, 1 expiring), 16 bytes fingerprint, lease end (µs), held nano-dollars, input, output tokens,
--   the answer's 21 figures, the root execution's name (length byte first), the caller's context.
-- Key x:<root> is 11 doubles: own, held, calls, limits known, revoked, closed, external, then the limits for dollars,
-- depth and calls (MAX = none), and the version of external.
-- Keys of holds and executions derive from the state key's name, so they share its hash tag and slot.
local HOLD = '<Bc16i8i8i8i8i8i8i8i8'
local ROOT_AT = 218
local slot, swap, minutes, roll, sweep = windows()

local function bounded(n)
  if n > MAX then return MAX elseif n < -MAX then return -MAX end
  return n
end

local function load(S) return { unpack_(ALL, S) } end

local function save(key, t) call('SETRANGE', key, 0, pack(ALL, unpack(t, 1, 39))) end

-- Reads the hold of an id, open or expiring; nil if there is none.
local function find(t, prefix, id)
  local H = call('HGET', prefix .. 'h', id)
  if not H and t[23] > 0 then H = call('HGET', prefix .. 'e', id) end
  if not H then return nil end
  local h = { bytes = H }
  h.state, h.print, h.ends, h.nano, h.tin, h.tout, h.at, h.first, h.day, h.month = unpack_(HOLD, H)
  local n = unpack_('<B', H, ROOT_AT)
  h.root = sub(H, ROOT_AT + 1, ROOT_AT + n)
  return h
end

-- Adds to the ring at second b: to the open second, to one of the 60 before it, or nowhere if it has left the window.
local function charge(t, r, b, q, i, o, n)
  local open = floor(t[4] / 1000000)
  if b > open or b < open - 60 then return end
  t[9], t[10], t[11], t[12] = t[9] + q, t[10] + i, t[11] + o, t[12] + n
  if b == open then
    t[5], t[6], t[7], t[8] = t[5] + q, t[6] + i, t[7] + o, t[8] + n
    return
  end
  local at = (b % 61) * 32
  local was = call('GETRANGE', r, at, at + 31)
  local wq, wi, wo, wn = 0, 0, 0, 0
  if #was == 32 then wq, wi, wo, wn = unpack_('<dddd', was) end
  call('SETRANGE', r, at, pack('<dddd', wq + q, wi + i, wo + o, wn + n))
end

-- Moves the open second forward to second b, for an amount that was admitted then.
local function advance(t, r, now)
  local open, second = floor(t[4] / 1000000), floor(now / 1000000)
  if now > t[4] then t[4] = now end
  if second <= open then return end
  local at1, new1, at2, new2
  t[9], t[10], t[11], t[12], at1, new1, at2, new2 = roll(r, open, second, t[5], t[6], t[7], t[8], t[9], t[10], t[11], t[12])
  t[5], t[6], t[7], t[8] = 0, 0, 0, 0
  if at1 == 0 and #new1 == 1952 then call('SET', r, new1) else call('SETRANGE', r, at1, new1) end
  if new2 then call('SETRANGE', r, 0, new2) end
end

-- Adds to own and held of a window, if it is still kept.
local function own(t, a, b, c, label, nano, held)
  local i
  if t[a] == label then i = a elseif t[b] == label then i = b elseif t[c] == label then i = c else return end
  t[i + 1], t[i + 2] = bounded(t[i + 1] + nano), t[i + 2] + held
end

local function expire(t, prefix, now)
  if t[21] == 0 or now < t[22] then return end
  local moved
  moved, t[22] = sweep(prefix .. 'h', prefix .. 'e', now)
  t[21], t[23] = t[21] - moved, t[23] + moved
end

local function spent(prefix, root, nano, held)
  if root == '' then return end
  local key = prefix .. 'x:' .. root
  local was = call('GETRANGE', key, 0, 15)
  if #was < 16 then return end
  local o, h = unpack_('<dd', was)
  call('SETRANGE', key, 0, pack('<dd', bounded(o + nano), h + held))
end

-- Ends a hold: what it holds becomes the actual, in the windows where it was reserved. Its request and its call stay
-- counted. The id is remembered for a while, the last 64 of a tenant.
local function finish(t, prefix, id, h, nano, tin, tout, hash, until_, ttl)
  local dn = nano - h.nano
  own(t, 13, 24, 28, h.day, dn, -h.nano)
  own(t, 17, 32, 36, h.month, dn, -h.nano)
  charge(t, prefix .. 'r', floor(h.at / 1000000), 0, tin - h.tin, tout - h.tout, dn)
  spent(prefix, h.root, dn, -h.nano)
  if h.state == 0 then
    t[21] = t[21] - call('HDEL', prefix .. 'h', id)
  else
    t[23] = t[23] - call('HDEL', prefix .. 'e', id)
  end
  local d = call('GET', prefix .. 'd') or ''
  if #d >= 768 then d = sub(d, #d - 755) end
  call('SET', prefix .. 'd', d .. pack('<c8I4', hash, until_), 'PX', ttl)
end
