-- In the place of read, in a batch: what was read for all, as the reservation before left it.
local S, N, H, X = S, N, H, xs[xfield]
