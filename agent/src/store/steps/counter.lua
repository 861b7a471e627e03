-- A counter as one string: a header, then counts or timestamps. What follows equals `State` in common/src/algorithm.
--
-- kind | bytes a slot | generation | quota | W ms | n | last ms, then
--   of a sliding window (kind 1 interpolated, 2 conservative): the counts, newest first, without trailing zeros; the newest
--     is that of the sub-window of `last`;
--   of a sliding log (kind 3): how many entries have left, how many there are, then the low 32 bits of each, oldest first.
--
-- Redis makes every function and table anew at each run, which is a third of what a step costs: so what each run does
-- stands in line in take.lua, and what only logs do is made when a log is met.
local HEADER, HEADER_LEN, LOG_HEADER_LEN = '<I1I1I7I7I4I1I6', 27, 31
local CONSERVATIVE, LOG = 2, 3
local COUNT_MAX, LOW, CLOCK_ERROR_MAX_MS = 9007199254740992, 4294967296, 1000
local floor, min, max, rep = math.floor, math.min, math.max, string.rep
local pack, parse = struct.pack, struct.unpack
local log, log_operations

local function empty(key, kind, width, parts, last)
  local c = { key = key, kind = kind, generation = 0, quota = 0, width = width, parts = parts, last = last, ring = {} }
  if kind == LOG then
    log = log or log_operations()
    c.gone, c.count, c.text, c.added = 0, 0, '', {}
  end
  return c
end

-- Enters units that were admitted at `at`, an instant not after `last`.
local function charge(c, at, units)
  if c.kind == LOG then return log.charge(c, at, units) end
  local ring, slot = c.ring, 1
  if at < c.last then
    local part = c.width / c.parts
    slot = floor(c.last / part) - floor(at / part) + 1
    if slot > c.parts + 1 then return end
  end
  for i = #ring + 1, slot do ring[i] = 0 end
  ring[slot] = min(ring[slot] + units, COUNT_MAX)
end

-- The same counts in another algorithm or window, or with the clock that stepped back to `last`.
local function rebuilt(c, kind, width, parts, last)
  local fresh, back = empty(c.key, kind, width, parts, last), c.last - last
  fresh.generation, fresh.quota = c.generation, c.quota
  if c.kind == LOG then
    log.whole(c)
    for i = c.gone, c.count - 1 do charge(fresh, log.time_at(c, i) - back, 1) end
  else
    local part = c.width / c.parts
    local current = floor(c.last / part)
    for i = #c.ring, 1, -1 do
      charge(fresh, min((current - i + 2) * part - 1, c.last) - back, c.ring[i])
    end
  end
  if kind == LOG then log.whole(fresh) end
  return fresh
end
