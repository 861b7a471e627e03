-- Units that may yet be given back, because the other counters of their call lie in other slots. They lie beside their
-- counter, as entries of one string: whose they are | until when they may be given back | charged when | units. Past that
-- instant they have confirmed themselves, and are dropped by whoever comes next. Only denials and those who charge and give
-- back so look here.
make_tentative = function()
  local ENTRY, LEN, ENTRIES_MAX, HOLD_MAX_MS = '<I6I6I7', 27, 1000, 60000
  local sub, min, max = string.sub, math.min, math.max
  local pack, parse = struct.pack, struct.unpack
  local tentative = {}

  local function held_until(text, place)
    return (parse('<I6', text, place + 8))
  end

  -- Enters units that are held for twice the time that is left to their call. Past the cap they are confirmed at once.
  function tentative.enter(key, token, now, expires, at, units)
    local text, place = redis.call('GET', key) or '', 1
    while place < #text and held_until(text, place) <= now do place = place + LEN end
    text = sub(text, place)
    if #text >= LEN * ENTRIES_MAX then return end
    local hold = min(2 * max(expires - now, 1), HOLD_MAX_MS)
    redis.call('SET', key, text .. token .. pack(ENTRY, now + hold, at, units), 'PX', hold + 1000)
  end

  -- Takes off an entry: when it was charged and its units, or nothing when it is confirmed or was never there.
  function tentative.leave(key, token, now)
    local text = redis.call('GET', key)
    if not text then return end
    for place = #text - LEN + 1, 1, -LEN do
      if sub(text, place, place + 7) == token then
        local hold, at, units = parse(ENTRY, text, place + 8)
        if hold <= now then return end
        local rest = sub(text, 1, place - 1) .. sub(text, place + LEN)
        local ttl = redis.call('PTTL', key)
        if rest == '' then redis.call('DEL', key) else redis.call('SET', key, rest, 'PX', max(ttl, 1)) end
        return at, units
      end
    end
  end

  -- Whether a denial stands without what may yet be given back.
  function tentative.is_firm(c, key, now, cost, scale_up)
    local text = redis.call('GET', key)
    if not text then return true end
    local last, part, all, newer, oldest = c.last, c.width / c.parts, 0, 0, 0
    for place = 1, #text, LEN do
      local hold, at, units = parse(ENTRY, text, place + 8)
      if hold > now then
        all = all + units
        local slot = math.floor(last / part) - math.floor(at / part) + 1
        if slot <= c.parts then newer = newer + units elseif slot == c.parts + 1 then oldest = oldest + units end
      end
    end
    if all == 0 then return true end
    if c.log then return max(c.quota - max(c.count - c.gone - all, 0), 0) < cost end
    if c.meter then return not c.meter.admits(c, last, cost, all) end
    local held, faded = -newer, (c.ring[c.parts + 1] or 0) - oldest
    for slot = 1, min(#c.ring, c.parts) do held = held + c.ring[slot] end
    faded = max(faded, 0)
    if c.kind == 4 then faded = 0 elseif c.kind % 7 == 1 then faded = scale_up(faded, part - last % part, part) end
    held = max(held, 0) + faded
    -- What they took of a reserve comes back with them.
    if c.reserve then return min(max(c.quota - held, 0) + c.reserve.free(c, all), max(c.burst - held, 0)) < cost end
    return max(c.quota - held, 0) < cost
  end

  return tentative
end
