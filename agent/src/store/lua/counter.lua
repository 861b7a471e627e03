-- Functions for all kinds of counters. A counter c has the fields of its header, and those of its state: of windows `ring`
-- and, with a burst, `spent`; of buckets `at` and `level`; of logs `gone` and `count`. Modules that only some steps need are
-- made when they are first needed.
local CLOCK_ERROR_MAX_MS = 1000
local floor, min, max, sub = math.floor, math.min, math.max, string.sub
local log, make_log, meter, make_meter, reserve, make_reserve, refund, make_refund, tentative, make_tentative

-- Units in the window that ends at `last`, without so many in its n newest sub-windows and so many in the oldest.
local function used(c, newer, older)
  local ring, parts, sum = c.ring, c.parts, -newer
  for slot = 1, #ring > parts and parts or #ring do sum = sum + ring[slot] end
  if sum < 0 then sum = 0 end
  if #ring <= parts then return sum end
  local oldest = max(ring[parts + 1] - older, 0)
  if c.kind == FIXED then
    oldest = 0
  elseif oldest > 0 and c.kind % 3 == 0 then
    local part = c.width / parts
    local covered = part - c.last % part
    if oldest * covered < COUNT_MAX then
      oldest = math.ceil(oldest * covered / part)
    else -- a product that is not exact, in two halves that are
      local rest = oldest % part
      local high = rest * floor(covered / 65536)
      local low = high % part * 65536 + rest * (covered % 65536)
      oldest = floor(oldest / part) * covered + floor(high / part) * 65536 + math.ceil(low / part)
    end
  end
  return sum + oldest
end

-- True if `cost` has room, without so many tentative units: in all, and by their place in a ring.
local function admits(c, cost, units, newer, older)
  if c.level then return meter.admits(c, cost, units) end
  if c.count then return max(c.quota - max(c.count - c.gone - units, 0), 0) >= cost end
  local held = used(c, newer, older)
  local left = max(c.quota - held, 0)
  if c.spent then left = min(left + reserve.free(c, units), max(c.burst - held, 0)) end
  return left >= cost
end

-- Moves a ring on by so many sub-windows.
local function shift(c, by)
  local ring, moved, kept = c.ring, {}, min(#c.ring, c.parts + 1 - by)
  for slot = 1, kept > 0 and by or 0 do moved[slot] = 0 end
  for slot = 1, kept do moved[by + slot] = ring[slot] end
  c.ring = moved
end
