-- What only a changed rule does: the same units in another algorithm, window or burst, so that no window gets two quotas.
-- It equals `State::fit`.
make_switch = function(charge, log, meter, reserve)
  local LEVEL_MAX = 9007199254740992
  local floor, min, max = math.floor, math.min, math.max

  local function is_log(kind) return kind == 3 or kind == 7 end
  local function is_bucket(kind) return kind == 5 or kind == 6 end

  -- The most that a meter may have admitted, and when at the latest: the rate before its last charge, then its level.
  local function admitted_by_meter(c, enter)
    if c.at == 0 then return end
    local function inside(at, units)
      if units > 0 and at + c.width > c.last then enter(at, units) end
    end
    local rest, of_level = c.quota % c.parts, c.level % c.unit
    local each = (c.quota - rest) / c.parts + (rest > 0 and 1 or 0)
    for i = c.parts - 1, 0, -1 do inside(max(c.at - i * c.width / c.parts, 0), each) end
    inside(c.at, (c.level - of_level) / c.unit + (of_level > 0 and 1 or 0))
  end

  -- What was admitted and when, oldest first: a sub-window's units at its last instant that is not in the future.
  local function admitted(c, enter)
    if c.log then
      log.whole(c)
      for i = c.gone, c.count - 1 do enter(log.time_at(c, i), 1) end
      return
    end
    if not c.ring then return admitted_by_meter(c, enter) end
    local part = c.width / c.parts
    local current = floor(c.last / part)
    for i = #c.ring, 1, -1 do
      if c.ring[i] > 0 then enter(min((current - i + 2) * part - 1, c.last), c.ring[i]) end
    end
  end

  -- How many units there are; of a bucket, how many are missing.
  local function held(c)
    if c.log then return c.count - c.gone end
    if not c.ring then
      local level = meter.level_at(c, c.last)
      return (level - level % c.unit) / c.unit
    end
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
    if is_bucket(kind) then meter.open(c, quota, width, burst, 0, 0) end
    if kind >= 8 and burst > 0 then reserve.open(c, 0) end
    return c
  end

  -- Another quota of a meter: the tokens that are there are kept, as many as the new bucket holds.
  local function refit(c, quota, width, burst)
    local free, unit, at = max(c.capacity - meter.level_at(c, c.last), 0), c.unit, c.at
    meter.open(c, quota, width, burst, at, 0)
    c.level = min(max(burst - (free - free % unit) / unit, 0) * c.unit, LEVEL_MAX)
    if c.level > 0 then c.at = c.last end
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
      if not same_meter then refit(c, quota, width, burst) end
      c.width, c.parts = width, parts
    elseif c.log and is_log(kind) and same_window then
      c.burst = burst
    elseif c.ring and not is_log(kind) and same_window then
      c.burst, c.quota, c.reserve = burst, quota, nil
      if kind >= 8 and burst > 0 then reserve.open(c, c.spent or 0) else c.spent = nil end
    else
      local fitting = open(c.key, kind, quota, width, parts, burst, c.last)
      if fitting.reserve then
        -- Each by what was there when it came; what was left unused since the last of them fills the reserve.
        local part, last, newest = width / parts, c.last, nil
        admitted(c, function(at, units)
          local current = floor(at / part)
          reserve.shift(fitting, current - (newest or current))
          fitting.last, newest = at, current
          charge(fitting, at, units)
        end)
        reserve.roll(fitting, floor(last / part) - (newest or floor(last / part)))
        fitting.last = last
      else
        admitted(c, function(at, units) charge(fitting, at, units) end)
      end
      if fitting.log then log.whole(fitting) end
      return fitting
    end
    c.kind = kind
    return c
  end

  return { fit = fit, open = open }
end
