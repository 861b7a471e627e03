-- A counter as one string: a header, then counts or timestamps. What follows equals `State` in common/src/algorithm.
--
-- kind | bytes a slot | generation | quota | W ms | n | last ms, then
--   of a sliding window (kind 1 interpolated, 2 conservative): the counts, newest first, without trailing zeros; the newest
--     is that of the sub-window of `last`;
--   of a log (kind 3 a sliding log, 7 the slots of calls under way): how many entries have left, how many there are, then
--     the low 32 bits of each, oldest first;
--   of the others W takes 6 bytes instead of 4: of a fixed window (kind 4) counts follow; of a token bucket (5) and a leaky
--     bucket (6) the burst and the meter, its last charge and its level as of then; of a sliding window with a burst or a
--     very wide window (8 interpolated, 9 conservative) the burst, what is spent of the reserve and the counts.
--
-- Redis makes every function and table anew at each run, which is a third of what a step costs: so what each run does
-- stands in line in judge.lua and settle.lua, and what only some do is made when it is met, by functions that look up all they need.
local HEADER, HEADER_LEN, WIDE, WIDE_LEN = '<I1I1I7I7I4I1I6', 27, '<I1I1I7I7I6I1I6', 29
local INTERPOLATED, CONSERVATIVE, LOG, FIXED, CONCURRENCY, BURSTING = 1, 2, 3, 4, 7, 8
local COUNT_MAX, CLOCK_ERROR_MAX_MS, TTL_MAX_MS = 9007199254740992, 1000, 3155760000000
local floor, max = math.floor, math.max
local pack, parse, rep = struct.pack, struct.unpack, string.rep
local log, make_log, meter, make_meter, switch, make_switch, back, make_back, reserve, make_reserve, tentative, make_tentative, exact, make_exact

-- Enters units that were admitted at `at`, an instant not after `last`.
local function charge(c, at, units)
  local ring = c.ring
  if not ring then
    if c.log then log.charge(c, at, units) else meter.charge(c, at, units) end
    return
  end
  local slot = 1
  if at < c.last then
    local part = c.width / c.parts
    slot = floor(c.last / part) - floor(at / part) + 1
  end
  if c.reserve then c.reserve.charge(c, units) end
  if slot <= c.parts + 1 then
    for i = #ring + 1, slot do ring[i] = 0 end
    local sum = ring[slot] + units
    ring[slot] = sum < COUNT_MAX and sum or COUNT_MAX
  end
end
