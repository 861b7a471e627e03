if done then return done end

-- Functions for all kinds of counters. A counter c has the fields of its header, and those of its state: of windows `ring`
-- and, with a burst, `spent`; of buckets `at` and `level`; of logs `gone` and `count`.
--
-- Redis makes every function and table anew at each run, and each local of the script that a function refers to costs as much
-- as a table. So modules that only some steps need are made when they are first needed, and functions refer to few locals.
local floor, min, max, sub = math.floor, math.min, math.max, string.sub
local log, meter, reserve

-- Units in the window that ends at `last`.
local function used(c)
  local ring, parts, sum = c.ring, c.parts, 0
  for slot = 1, #ring > parts and parts or #ring do sum = sum + ring[slot] end
  local oldest = #ring > parts and ring[parts + 1] or 0
  local estimate = (c.kind - 1) % 3 -- 0 interpolated, 1 conservative, 2 fixed
  if oldest <= 0 or estimate == 2 then return sum end
  if estimate == 0 then
    local part = c.width / parts
    local covered = part - c.last % part
    if oldest * covered < 2 ^ 53 then return sum + math.floor(oldest * covered / part) end
    -- A product that is not exact, in two halves that are.
    local rest = oldest % part
    local high = rest * math.floor(covered / 65536)
    local low = high % part * 65536 + rest * (covered % 65536)
    oldest = math.floor(oldest / part) * covered + math.floor(high / part) * 65536 + math.floor(low / part)
  end
  return sum + oldest
end

-- True if `cost` has room.
local function admits(c, cost)
  if c.level then return meter.admits(c, cost) end
  local held = c.count and c.count - c.gone or used(c)
  local left = math.max(c.quota - held, 0)
  if c.spent then left = math.min(left + reserve.free(c), math.max(c.burst - held, 0)) end
  return left >= cost
end

-- Moves a ring on by so many sub-windows.
local function shift(c, by)
  local kept = math.min(#c.ring, c.parts + 1 - by)
  if kept <= 0 then
    c.ring = {}
  else
    c.ring = { unpack(c.ring, 1 - by, kept) }
    for slot = 1, by do c.ring[slot] = 0 end
  end
end

-- Refunds units that were charged at `at`, as far as they are still there; of a log only those of that very instant. At the
-- largest instant that a charge can have, it removes all units: a reset is sent so.
local function refund(c, at, units)
  if at == COUNT_MAX - 1 then
    if c.kind == SLOTS then return end -- Their calls run.
    if c.count then c.text, c.added, c.gone, c.count, c.newest = '', '', 0, 0, 0 end
    if c.level then c.at, c.level = 0, 0 end
    if c.ring then c.ring, c.spent = {}, c.spent and 0 end
  elseif c.count then
    log.read_all(c)
    local from = log.after(c, at - 1)
    units = math.min(units, log.after(c, at) - from)
    c.text, c.count = sub(c.text, 1, 4 * from) .. sub(c.text, 4 * (from + units) + 1), c.count - units
    c.newest = log.time_at(c, c.count - 1)
  elseif c.level then
    meter.refund(c, at, units)
  else
    local part = c.width / c.parts
    local slot = math.floor(c.last / part) - math.floor(at / part) + 1
    units = math.min(units, c.ring[slot] or 0)
    if c.spent then reserve.refund(c, units) end
    if units > 0 then c.ring[slot] = c.ring[slot] - units end
  end
end
