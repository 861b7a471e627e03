-- What takes back: units that were charged, or the time of a clock that stepped back.
make_back = function()
  local LOW = 4294967296
  local floor, min, max, sub = math.floor, math.min, math.max, string.sub
  local back = {}

  -- Takes back units that were charged at `at`, as far as they are still there; of a log those of that very instant.
  function back.give(c, at, units)
    local ring, log = c.ring, c.log
    if log then
      log.whole(c)
      local from = log.after(c, at - 1)
      units = min(units, log.after(c, at) - from)
      c.text = sub(c.text, 1, 4 * from) .. sub(c.text, 4 * (from + units) + 1)
      c.count, c.newest = c.count - units, nil
      return
    end
    if ring then
      local part = c.width / c.parts
      local slot = floor(c.last / part) - floor(at / part) + 1
      if slot >= 1 and slot <= #ring then
        units = min(units, ring[slot])
        if c.reserve then c.reserve.give_back(c, units) end
        ring[slot] = ring[slot] - units
      end
    end
    if c.meter then c.level = max(c.level - units * c.unit, 0) end
  end

  -- Leaves all as old as it was, by a clock that stepped back to `now`: counts lie relative to it as they are.
  function back.rebase(c, now)
    local by, log = c.last - now, c.log
    if log then
      log.whole(c)
      local moved = {}
      for i = c.gone, c.count - 1 do moved[#moved + 1] = struct.pack('<I4', max(log.time_at(c, i) - by, 0) % LOW) end
      c.text, c.count, c.gone, c.newest = table.concat(moved), c.count - c.gone, 0, nil
    end
    if c.meter then c.at = max(c.at - by, 0) end
    c.last = now
  end

  return back
end
