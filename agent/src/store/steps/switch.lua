-- What only a changed rule does: the same units in another algorithm, window or burst, so that no window gets two quotas.
-- It equals `State::fit`.
make_switch = function(charge, log, meter)
  local floor, min = math.floor, math.min

  local function is_log(kind) return kind == 3 or kind == 7 end
  local function is_bucket(kind) return kind == 5 or kind == 6 end

  -- What was admitted and when, oldest first: a sub-window's units at its last instant that is not in the future.
  local function admitted(c, enter)
    if c.log then return log.admitted(c, enter) end
    if not c.ring then return meter.admitted(c, enter) end
    local part = c.width / c.parts
    local current = floor(c.last / part)
    for i = #c.ring, 1, -1 do
      if c.ring[i] > 0 then enter(min((current - i + 2) * part - 1, c.last), c.ring[i]) end
    end
  end

  local function held(c)
    if c.log then return c.count - c.gone end
    if not c.ring then return meter.held(c) end
    local sum = 0
    for slot = 1, #c.ring do sum = sum + c.ring[slot] end
    return sum
  end

  -- An untouched counter of this kind.
  local function open(key, kind, quota, width, parts, burst, last)
    local c = { key = key, kind = kind, generation = 0, quota = quota, width = width, parts = parts, last = last }
    c.burst = burst
    if is_log(kind) then return log.open(c) end
    if not is_bucket(kind) then c.ring = {} end
    if is_bucket(kind) or kind >= 8 and burst > 0 then meter.open(c, quota, width, burst, 0, 0) end
    return c
  end

  local function fit(c, kind, quota, width, parts, burst)
    local same_window, was_bucket = c.width == width and c.parts == parts, is_bucket(c.kind)
    local same_meter = same_window and c.quota == quota and c.burst == burst
    if is_bucket(kind) then
      if not was_bucket then
        local units, fitting = held(c), open(c.key, kind, quota, width, parts, burst, c.last)
        meter.charge(fitting, c.last, units)
        return fitting
      end
      if not same_meter then meter.refit(c, quota, width, burst) end
      c.width, c.parts = width, parts
    elseif c.log and is_log(kind) and same_window then
      c.burst = burst
    elseif c.ring and not is_log(kind) and same_window then
      if kind < 8 or burst == 0 then
        c.meter = nil
      elseif not c.meter then
        meter.open(c, quota, width, burst, 0, 0)
        meter.charge(c, c.last, held(c))
      elseif not same_meter then
        meter.refit(c, quota, width, burst)
      end
      c.burst = burst
    else
      local fitting = open(c.key, kind, quota, width, parts, burst, c.last)
      admitted(c, function(at, units) charge(fitting, at, units) end)
      if fitting.log then log.fill(fitting) end
      return fitting
    end
    c.kind = kind
    return c
  end

  return { fit = fit, open = open }
end
