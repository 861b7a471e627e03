-- What only sliding windows with a burst do. It equals `Reserve` in common/src/algorithm: what goes beyond the quota is
-- spent of a reserve, in units times sub-windows, and what a sub-window leaves unused of the quota makes up for it.
make_reserve = function()
  local floor, ceil, min, max, COUNT_MAX = math.floor, math.ceil, math.min, math.max, 9007199254740992
  local reserve = {}

  local function whole(c)
    return max(c.burst - c.quota, 0) * c.parts
  end

  -- Makes c have a reserve of which so much is spent.
  function reserve.open(c, spent)
    c.reserve, c.spent = reserve, min(spent, whole(c))
  end

  -- How many units have room beside so many used.
  function reserve.left(c, used)
    local free = whole(c) - c.spent
    return min(max(c.quota - used, 0) + (free - free % c.parts) / c.parts, max(c.burst - used, 0))
  end

  -- What is free of it, were so many units given back.
  function reserve.free(c, units)
    local excess = min(units, max(reserve.used(c) - c.quota, 0))
    local free = whole(c) - max(c.spent - excess * c.parts, 0)
    return (free - free % c.parts) / c.parts
  end

  -- Units in the window that ends at `last`.
  function reserve.used(c)
    local ring, used, oldest = c.ring, 0, c.ring[c.parts + 1] or 0
    for slot = 1, min(#ring, c.parts) do used = used + ring[slot] end
    if c.kind == 9 or oldest == 0 then return used + oldest end
    local part = c.width / c.parts
    local covered = part - c.last % part
    local product = oldest * covered
    if product < COUNT_MAX then return used + ceil(product / part) end
    exact = exact or make_exact()
    return used + exact(oldest, covered, part)
  end

  function reserve.charge(c, units)
    local excess = min(units, max(reserve.used(c) + units - c.quota, 0))
    c.spent = min(c.spent + excess * c.parts, whole(c))
  end

  -- Gives back what the last of the used units took.
  function reserve.give_back(c, units)
    local excess = min(units, max(reserve.used(c) - c.quota, 0))
    c.spent = max(c.spent - excess * c.parts, 0)
  end

  -- Drops what has left after so many sub-windows; each that is over fills the reserve by what it left unused.
  function reserve.roll(c, by)
    while by > 0 and c.spent > 0 do
      local ring, held, steps = c.ring, 0, 1
      for slot = 1, min(#ring, c.parts) do held = held + ring[slot] end
      if held == 0 and (ring[c.parts + 1] or 0) == 0 then steps = by end
      c.spent = max(c.spent - max(c.quota - held, 0) * steps, 0)
      reserve.shift(c, steps)
      by = by - steps
    end
    reserve.shift(c, by)
  end

  function reserve.shift(c, by)
    if by == 0 then return end
    local ring, rolled = c.ring, {}
    local kept = min(#ring, c.parts + 1 - by)
    for slot = 1, kept > 0 and by or 0 do rolled[slot] = 0 end
    for slot = 1, kept do rolled[by + slot] = ring[slot] end
    c.ring = rolled
  end

  -- How long it takes to be whole again once the counts have left.
  function reserve.fills_in(c)
    return ceil(c.spent / max(c.quota, 1)) * c.width / c.parts
  end

  return reserve
end
