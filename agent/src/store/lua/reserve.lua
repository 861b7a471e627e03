-- The reserve of sliding windows with a burst, as `Reserve` in common/core/src/algorithm: units beyond the quota are spent of
-- it, in units times sub-windows, and the part of the quota that a sub-window leaves unused refills it.
local function make_reserve()
  local min, max = math.min, math.max

  local function whole(c)
    return max(c.burst - c.quota, 0) * c.parts
  end

  local function taken_by(c, units)
    return min(units, max(used(c) - c.quota, 0)) * c.parts
  end

  return {
    -- Follows another quota or burst.
    follow = function(c)
      c.spent = min(c.spent or 0, whole(c))
    end,

    -- Units that are free.
    free = function(c)
      local free = whole(c) - c.spent
      return (free - free % c.parts) / c.parts
    end,

    charge = function(c, units)
      local excess = min(units, max(used(c) + units - c.quota, 0))
      c.spent = min(c.spent + excess * c.parts, whole(c))
    end,

    refund = function(c, units)
      c.spent = max(c.spent - taken_by(c, units), 0)
    end,

    -- Moves the ring on; all sub-windows without any unit refill at once.
    roll = function(c, by)
      while by > 0 and c.spent > 0 do
        local ring, held, steps = c.ring, 0, 1
        for slot = 1, min(#ring, c.parts) do held = held + ring[slot] end
        if held == 0 and (ring[c.parts + 1] or 0) == 0 then steps = by end
        c.spent = max(c.spent - max(c.quota - held, 0) * steps, 0)
        shift(c, steps)
        by = by - steps
      end
      shift(c, by)
    end,
  }
end
