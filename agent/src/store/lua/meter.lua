-- The meter of buckets, as `Meter` in common/core/src/algorithm: with p units per q ms in lowest terms a unit is q of the
-- level, and a millisecond drains p. Levels are at most 2^53, so they are exact; larger products only have to compare right.
local function make_meter(HEADER_LEN, CLOCK_ERROR_MAX_MS)
  local min, max = math.min, math.max

  local function set_rate(c)
    local a, b = c.quota, c.width
    while b > 0 do a, b = b, a % b end
    c.drains, c.unit = c.quota / a, c.width / a
  end

  local function level_at(c, now)
    return max(c.level - c.drains * max(now - c.at, 0), 0)
  end

  local function drain_ms(c, level)
    local by = max(c.drains, 1)
    local rest = level % by
    return (level - rest) / by + min(rest, 1)
  end

  return {
    -- Reads the state; false if it is not that of a meter.
    read = function(c, value)
      set_rate(c)
      c.at, c.level = 0, 0
      if #value == HEADER_LEN + 13 then c.at, c.level = struct.unpack('<I6I7', value, HEADER_LEN + 1) end
      return #value == HEADER_LEN + 13 or #value == HEADER_LEN
    end,

    -- Follows another quota or burst: the tokens stay, up to the new burst.
    follow = function(c, quota, burst)
      local room = max(c.burst * c.unit - level_at(c, c.last), 0)
      local tokens = (room - room % c.unit) / c.unit
      c.quota, c.burst = quota, burst
      set_rate(c)
      c.level = min(max(burst - tokens, 0) * c.unit, 2 ^ 53)
      if c.level > 0 then c.at = c.last end
    end,

    admits = function(c, cost)
      return cost <= c.burst and max(c.burst * c.unit - level_at(c, c.last), 0) >= cost * c.unit
    end,

    -- Whole units of the level.
    held = function(c, at)
      local level = level_at(c, at)
      return (level - level % c.unit) / c.unit
    end,

    charge = function(c, at, units)
      if units == 0 then return end
      if at >= c.at then
        c.level, c.at = level_at(c, at), at
      elseif c.at - at >= drain_ms(c, c.burst * c.unit) then
        return
      end
      c.level = min(c.level + units * c.unit, 2 ^ 53)
    end,

    -- What has drained since `at` holds a whole bucket less; an instant from before a step back of the clock gives nothing back.
    refund = function(c, at, units)
      if at > c.last + CLOCK_ERROR_MAX_MS then return end
      local rest = max(c.burst * c.unit - c.drains * max(c.last - at, 0), 0)
      c.level = max(c.level - min(units * c.unit, rest), 0)
    end,

    -- Time after which a charge has no effect any more: a window, or that in which a whole bucket drains.
    lasts_ms = function(c)
      return max(c.width, drain_ms(c, c.burst * c.unit))
    end,

    -- Time until the last charge has left a window and all has drained.
    idle_in = function(c)
      return max(c.width, c.at + drain_ms(c, c.level) - c.last)
    end,
  }
end
