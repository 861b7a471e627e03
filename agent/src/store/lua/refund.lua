-- Refunds units that were charged at `at`, as far as they are still there; of a log only those of that very instant.
make_refund = function()
  return function(c, at, units)
    if c.count then
      log.refund(c, at, units)
    elseif c.level then
      c.level = max(c.level - units * c.unit, 0)
    else
      local part = c.width / c.parts
      local slot = floor(c.last / part) - floor(at / part) + 1
      units = min(units, c.ring[slot] or 0)
      if c.spent then reserve.refund(c, units) end
      if units > 0 then c.ring[slot] = c.ring[slot] - units end
    end
  end
end
