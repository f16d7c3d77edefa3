-- pend: keeps a hold of an earlier epoch, proved by its receipt, until the base of this epoch is there. KEYS n s. ARGV packed
-- epoch, reserved-at, day, month, nano-dollars, input, output, lease (µs), most that may be pending, TTL of n (ms); id; what
-- the hold keeps of its request; test clock. Once the counters are made no hold is added, because what ended it may be applied
-- already; one that is there is extended there too. Where the lost epoch's counters are still there, this is not the Redis
-- that the new ones are made in: nobody would find the hold. Reply: '\0', lease end and what is held; '\1' too late; '\3'
-- another hold has the id; '\12' another Redis; '\14' too many.
--
-- Key n is a hash: "{e" the epoch (double), and by id: double reserved-at, day and month (4 bytes each), and what field <id>
-- of key s would be.
local epoch, at, day, month, nano, tin, tout, lease, most, ttl = unpack_('<i8i8i8i8i8i8i8i8i8i8', ARGV[1])
local n, s, id = KEYS[1], KEYS[2], ARGV[2]
local S = call('HGET', s, '{')
local e = S and unpack_('<d', S) or 0
if S and math.abs(e) ~= epoch then return '\12' end
if e == epoch then return '\1' end
local made = e == -epoch
local v = call('HMGET', n, '{e', id)
local of, old = v[1] and unpack_('<d', v[1]) or 0, v[2]
if of > epoch then return '\12' end
if of < epoch then
  call('DEL', n)
  old = nil
end
local ends = clock(ARGV[4], 0) + lease
if old then
  local oldAt, _, _, on, oi, oo, oe = unpack_('<dI4I4dddd', old)
  if oldAt ~= at then return '\3' end
  nano, tin, tout, ends = math.max(nano, on), math.max(tin, oi), math.max(tout, oo), math.max(ends, oe)
elseif made then
  return '\1'
elseif call('HLEN', n) > most then
  return '\14'
end
call('HSET', n, '{e', pack('<d', epoch), id, pack('<dI4I4dddd', at, day, month, nano, tin, tout, ends) .. sub(ARGV[3], 33))
call('PEXPIRE', n, string.format('%.0f', ttl))
if made then
  local t, prefix = load(s), sub(s, 1, -2)
  local h = find(t, prefix, id)
  if h and h.at == at and h.open then
    local gn, gi, go = math.max(nano - h.nano, 0), math.max(tin - h.tin, 0), math.max(tout - h.tout, 0)
    own(t, h.day, gn, gn)
    charge(t, floor(h.at / 1000000), 0, gi, go, gn)
    local names = scopesOf(h.kept)
    eachScope(prefix, t[1], names, function(u)
      own(u, h.day, gn, gn)
      charge(u, floor(h.at / 1000000), 0, gi, go, gn)
    end)
    spendBranches(prefix, names, gn, gn, 0)
    spend(prefix, h.root, gn, gn, 0)
    call('HSET', s, id, pack('<dddd', h.nano + gn, h.tin + gi, h.tout + go, math.max(h.ends, ends)) .. sub(h.kept, 33))
    save(t)
  end
end
return pack('<Bi8i8i8i8', 0, ends, nano, tin, tout)
