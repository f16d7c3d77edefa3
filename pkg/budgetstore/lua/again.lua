-- In the place of read, in a batch: the state as the reservation before left it is known.
local S, H, X, F = known.S, nil, nil, known.F
if S then
  local v = call('HMGET', key, id, xfield)
  H, X = v[1], v[2]
else
  local v = call('HMGET', key, '{', id, xfield, '{f')
  S, H, X, F = v[1], v[2], v[3], v[4]
  known.F = F
end
