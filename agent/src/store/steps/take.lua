-- Judges and charges all counters of one call: all of them or none. KEYS: the counters; ARGV: a take for each.
-- It answers with what the agent needs to word the verdict by the same arithmetic (redis/codec.rs).
local TAKE, ANSWER, RUN = '<I1I1I1I4I7I7I7I7', '<I1I1I1I4I7I6I2', '<I6I7'
local LATE, REFUSED, CHARGED = 0, 1, 2

-- What there is, as units at instants that read the same: all of it at `last` when it is only added to.
local function runs(c, cost, held, admitted)
  if admitted and cost > 0 then
    if held == 0 then return 0, '' end
    return 1, pack(RUN, c.last, held)
  end
  local list = {}
  if c.kind ~= LOG then
    local part = c.width / c.parts
    local current = floor(c.last / part)
    for i = #c.ring, 1, -1 do
      if c.ring[i] > 0 then list[#list + 1] = pack(RUN, (current - i + 1) * part, c.ring[i]) end
    end
  elseif held > 0 then
    -- So many of the oldest must leave; the last of them decides.
    local leaving = max(held + cost - c.quota, 0)
    if cost > c.quota then leaving = 0 end
    if leaving > 0 then list[1] = pack(RUN, time_at(c, c.gone + leaving - 1), leaving) end
    if held > leaving then list[#list + 1] = pack(RUN, newest(c), held - leaving) end
  end
  return #list, concat(list)
end

local counters, costs, times, answers, room = {}, {}, {}, {}, true
for i, key in ipairs(KEYS) do
  local kind, owed, parts, width, quota, generation, cost, time = parse(TAKE, ARGV[i])
  if owed == 0 and time < now then return pack('<I1I6', LATE, now) end
  local c = counters[key]
  if not c then
    local trouble
    c, trouble = read(key)
    if trouble then return trouble end
    if not c then c = empty(key, kind, width, parts, now) end
  end
  if generation >= c.generation then
    if (c.kind == LOG) ~= (kind == LOG) or c.width ~= width or c.parts ~= parts then
      c = rebuilt(c, kind, width, parts, c.last)
    end
    c.kind, c.quota, c.generation = kind, quota, generation
  end
  local rebased
  c, rebased = advance(c)
  counters[key] = c
  local held = used(c)
  local admitted = max(c.quota - held, 0) >= cost
  room = room and (admitted or owed == 1)
  costs[i], times[i] = cost, owed == 1 and min(time, c.last) or c.last
  local count, list = runs(c, cost, held, admitted)
  answers[i] = pack(ANSWER, c.kind, rebased, c.parts, c.width, c.quota, c.last, count) .. list
end
if room then
  for i, key in ipairs(KEYS) do charge(counters[key], times[i], costs[i]) end
end
for _, c in pairs(counters) do save(c) end
return pack('<I1I6', room and CHARGED or REFUSED, now) .. concat(answers)
