-- What only the meters of buckets do. It equals `Meter` in
-- common/src/algorithm: with p units per q ms in lowest terms a unit is q of the level and a millisecond drains p. Levels
-- are at most 2^53, so they are exact; products above that only have to compare right.
make_meter = function()
  local HEADER, HEADER_LEN, FIELDS, LEVEL_MAX = '<I1I1I7I7I6I1I6', 29, '<I7I6I7', 9007199254740992
  local max, pack, parse = math.max, struct.pack, struct.unpack
  local meter = {}

  -- Makes c have a meter of this quota and burst, last charged at `at`.
  function meter.open(c, quota, width, burst, at, level)
    local a, b = quota, width
    while b > 0 do a, b = b, a % b end
    if a == 0 then a = 1 end
    local unit = width / a
    c.meter, c.at, c.level, c.burst = meter, at, level, burst
    c.drains, c.unit, c.capacity = quota / a, unit, burst * unit
  end

  -- Reads what follows the header; where the counts begin, or false when it makes no sense.
  function meter.read(c, value)
    if #value < HEADER_LEN + 20 then return false end
    local burst, at, level = parse(FIELDS, value, HEADER_LEN + 1)
    meter.open(c, c.quota, c.width, burst, at, level)
    return HEADER_LEN + 20
  end

  -- The meter as it is stored and told.
  function meter.told(c)
    return pack(FIELDS, c.burst, c.at, c.level)
  end

  local function level_at(c, now)
    local elapsed = now - c.at
    return elapsed > 0 and max(c.level - c.drains * elapsed, 0) or c.level
  end

  local function drain(c, level)
    local by = max(c.drains, 1)
    local rest = level % by
    return (level - rest) / by + (rest > 0 and 1 or 0)
  end

  -- Whether there is room, were so many units of what is there not there.
  function meter.admits(c, now, cost, without)
    if cost > c.burst then return false end
    local level = level_at(c, now)
    if without then level = max(level - without * c.unit, 0) end
    return max(c.capacity - level, 0) >= cost * c.unit
  end

  function meter.charge(c, at, units)
    if units == 0 then return end
    if at >= c.at then
      c.level, c.at = level_at(c, at), at
    elseif c.at - at >= drain(c, c.capacity) then
      return
    end
    local level = c.level + units * c.unit
    c.level = level < LEVEL_MAX and level or LEVEL_MAX
  end

  -- How long it may still matter: for a window after the last charge, and until all has drained.
  function meter.ttl(c)
    return max(c.width, c.at + drain(c, c.level) - c.last)
  end

  meter.level_at = level_at
  return meter
end
