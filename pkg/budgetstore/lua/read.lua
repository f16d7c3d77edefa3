local v = call('HMGET', key, '{', id, xfield, '{f')
local S, H, X, F = v[1], v[2], v[3], v[4]
