local v = call('HMGET', key, '{', '{n', id, xfield)
local S, N, H, X = v[1], v[2], v[3], v[4]
