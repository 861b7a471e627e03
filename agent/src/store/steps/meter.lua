-- What only meters do: those of both buckets, and that of a sliding window with a burst. It equals `Meter` in
-- common/src/algorithm: with p units per q ms in lowest terms a unit is q of the level and a millisecond drains p. Levels
-- are at most 2^53, so they are exact; products above that only have to compare right.
make_meter = function()
  local LEVEL_MAX = 9007199254740992
  local min, max = math.min, math.max
  local meter = {}

  local function div_ceil(x, y)
    local rest = x % y
    return (x - rest) / y + (rest > 0 and 1 or 0)
  end

  -- Makes c have a meter of this quota and burst, last charged at `at`.
  function meter.open(c, quota, width, burst, at, level)
    local a, b = quota, width
    while b > 0 do a, b = b, a % b end
    a = max(a, 1)
    c.meter, c.at, c.level, c.burst = meter, at, level, burst
    c.drains, c.unit = quota / a, width / a
    c.capacity = burst * c.unit
    return c
  end

  local function level_at(c, now)
    return max(c.level - c.drains * max(now - c.at, 0), 0)
  end

  local function room(c, now)
    return max(c.capacity - level_at(c, now), 0)
  end

  local function drain(c, level)
    return div_ceil(level, max(c.drains, 1))
  end

  -- Whether there is room, were so many units of what is there not there.
  function meter.admits(c, now, cost, without)
    if cost > c.burst then return false end
    local level = max(level_at(c, now) - (without or 0) * c.unit, 0)
    return max(c.capacity - level, 0) >= cost * c.unit
  end

  function meter.charge(c, at, units)
    if units == 0 then return end
    if at >= c.at then
      c.level, c.at = level_at(c, at), at
    elseif c.at - at >= drain(c, c.capacity) then
      return
    end
    c.level = min(c.level + units * c.unit, LEVEL_MAX)
  end

  function meter.give_back(c, units)
    c.level = max(c.level - units * c.unit, 0)
  end

  function meter.rebase(c, now)
    c.at = max(c.at - (c.last - now), 0)
  end

  -- Another quota: the tokens that are there are kept, as many as the new bucket holds.
  function meter.refit(c, quota, width, burst)
    local free, unit, at = room(c, c.last), c.unit, c.at
    meter.open(c, quota, width, burst, at, 0)
    c.level = min(max(burst - (free - free % unit) / unit, 0) * c.unit, LEVEL_MAX)
    if c.level > 0 then c.at = c.last end
  end

  -- How many units are missing.
  function meter.held(c)
    local level = level_at(c, c.last)
    return (level - level % c.unit) / c.unit
  end

  -- The most that may have been admitted, and when at the latest, oldest first.
  function meter.admitted(c, enter)
    if c.at == 0 then return end
    local part, each = c.width / c.parts, div_ceil(c.quota, c.parts)
    local function inside(at, units)
      if units > 0 and at + c.width > c.last then enter(at, units) end
    end
    for i = c.parts - 1, 0, -1 do inside(max(c.at - i * part, 0), each) end
    inside(c.at, div_ceil(c.level, c.unit))
  end

  -- How long it may still matter: for a window after the last charge, and until all has drained.
  function meter.ttl(c)
    return max(c.width, c.at + drain(c, c.level) - c.last)
  end

  return meter
end
