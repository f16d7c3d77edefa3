-- Whether whoever carries a recovery out may still make a tenant's counters: nil, or the reply that says why not. Several
-- may believe that they do: each has a generation, and the latest one that made the counters keeps earlier ones away
-- (field "{c"). Counters that are ready, or of a later epoch, are nobody's to make.
local function fence(key, epoch, generation)
  local v = call('HMGET', key, '{', '{c')
  if not v[1] then return nil end
  local e = unpack_('<d', v[1])
  if math.abs(e) > epoch then return '\12' end
  if e == epoch then return '\1' end
  if e == -epoch and v[2] and unpack_('<d', v[2], 205) > generation then return '\15' end
  return nil
end
