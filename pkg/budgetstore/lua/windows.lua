-- Windows of days, months and the sliding minute, and leases. The functions are made only when a call needs them: a closure costs
-- Redis about as much as reading a key, and most reservations need none.
local function windows()
  -- Index of the window of a label among a, b, c. An unknown label takes the place of the older of b and c, unless it is
  -- older still: nil.
  local function slot(t, a, b, c, label)
    if t[a] == label then return a elseif t[b] == label then return b elseif t[c] == label then return c end
    local o = t[b] <= t[c] and b or c
    if label < t[o] then return nil end
    t[o], t[o + 1], t[o + 2], t[o + 3] = label, 0, 0, 0
    return o
  end

  local function swap(t, a, b)
    if a == b then return end
    for i = 0, 3 do t[a + i], t[b + i] = t[b + i], t[a + i] end
  end

  -- Dollars of usage that never asked, of every calendar minute that ended less than 60 s ago, or has not ended. A minute
  -- whose corrections exceed its usage counts as 0: what it corrects may have left the window.
  local function minutes(S, second)
    local m = { unpack_('<dddddddddddddddddddddddd', S, MINUTES_AT) }
    local sum = 0
    for i = 1, 22, 3 do
      if m[i] + 120 > second and m[i + 1] > 0 then sum = sum + m[i + 1] end
    end
    return sum > MAX and MAX or sum
  end

  -- Moves the window from second `from` to second `to`, in numbers only. Returns the window's sums without what has left
  -- it, and what must be written to the ring: place and bytes, twice (the second time after the wrap), or nil.
  local function roll(r, from, to, oq, oi, oo, on, sq, si, so, sn)
    local k = to - from
    if k > 60 then return 0, 0, 0, 0, 0, rep('\0', 1952) end
    local a, b = (from + 1) % 61, to % 61
    local gone
    if a <= b then
      gone = call('GETRANGE', r, string.format('%d', a * 32), string.format('%d', b * 32 + 31))
    else
      gone = call('GETRANGE', r, string.format('%d', a * 32), '1951') .. call('GETRANGE', r, '0', string.format('%d', b * 32 + 31))
    end
    if gone ~= rep('\0', k * 32) then
      for at = 1, #gone, 32 do
        local q, i, o, n = unpack_('<dddd', gone, at)
        sq, si, so, sn = sq - q, si - i, so - o, sn - n
      end
    end
    local new = pack('<dddd', oq, oi, oo, on) .. rep('\0', (k - 1) * 32)
    local at = (from % 61) * 32
    local fits = 1952 - at
    if #new <= fits then return sq, si, so, sn, at, new end
    return sq, si, so, sn, at, sub(new, 1, fits), 0, sub(new, fits + 1)
  end

  -- Moves the holds whose lease has run out from h to e. Returns how many, and the earliest lease end of the others (0:
  -- none). It reads every open hold, so it is only called when a lease may have ended: field 22 is a lower bound, which
  -- settled calls leave behind and a sweep makes exact. So that is once in about the length of a lease.
  local function sweep(h, e, now)
    local all, moved, first = call('HGETALL', h), 0, 0
    for i = 1, #all, 2 do
      local ends = unpack_('<i8', all[i + 1], 18)
      if ends <= now then
        call('HSET', e, all[i], '\1' .. sub(all[i + 1], 2))
        call('HDEL', h, all[i])
        moved = moved + 1
      elseif first == 0 or ends < first then
        first = ends
      end
    end
    return moved, first
  end

  return slot, swap, minutes, roll, sweep
end
