-- Holds and what they are charged to: for all scripts that change or end one. An open hold is two fields of key s:
--   "{h<id>"  field "{n" as the reservation left it: the answer is made from it
--   "<id>"    doubles held nano-dollars, input, output, lease end (µs; below 1e12: counted from the reservation);
--             16 bytes fingerprint; the root execution's name (length byte first); how many sub-scopes and branches it
--             counts in (1 byte), and each one's name, see scopes.lua (length byte first); the rest is the caller's
-- An expiring one is a single field of key e, the two in this order.
local ROOT_AT = 49

-- Where the count of sub-scopes is in field <id>.
local function scopesAt(kept) return ROOT_AT + 1 + unpack_('<B', kept, ROOT_AT) end

-- Their names.
local function scopesOf(kept)
  local at, names = scopesAt(kept), {}
  local p = at + 1
  for i = 1, (unpack_('<B', kept, at)) do
    local size = unpack_('<B', kept, p)
    names[i] = sub(kept, p + 1, p + size)
    p = p + 1 + size
  end
  return names
end

-- The hold of an id, of which the two fields were read, or an expiring one; nil if there is none.
local function found(t, prefix, id, kept, head)
  local open = true
  if not kept then
    local both = t[23] > 0 and call('HGET', prefix .. 'e', id)
    if not both then return nil end
    head, kept, open = sub(both, 1, NOW_SIZE), sub(both, NOW_SIZE + 1), false
  end
  local h = { kept = kept, open = open, at = unpack_('<d', head), day = unpack_('<I4', head, 37) }
  h.nano, h.tin, h.tout, h.ends = unpack_('<dddd', kept)
  if h.ends < 1e12 then h.ends = h.at + h.ends end
  h.root = sub(kept, ROOT_AT + 1, scopesAt(kept) - 1)
  return h
end

-- Reads the hold of an id.
local function find(t, prefix, id)
  return found(t, prefix, id, unpack(call('HMGET', prefix .. 's', id, '{h' .. id)))
end

-- Ends a hold: what it holds becomes the actual, in the windows where it was reserved. Its request and its call stay
-- counted. The id is remembered for a while, see remember.lua, which a script that calls this has too.
local function finish(t, prefix, id, h, nano, tin, tout, hash, until_, now)
  local second = floor(h.at / 1000000)
  local function replace(u)
    own(u, h.day, nano - h.nano, -h.nano)
    charge(u, second, 0, tin - h.tin, tout - h.tout, nano - h.nano)
  end
  replace(t)
  local names = scopesOf(h.kept)
  eachScope(prefix, t[1], names, replace)
  spendBranches(prefix, names, nano - h.nano, -h.nano, now)
  spend(prefix, h.root, nano - h.nano, -h.nano, now, t)
  if h.open then
    t[21] = t[21] - 1
    call('HDEL', prefix .. 's', id, '{h' .. id)
  else
    t[23] = t[23] - call('HDEL', prefix .. 'e', id)
  end
  t.ended = remember(t.key, t.ended, hash, until_)
end
