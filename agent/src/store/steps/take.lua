-- Judges and charges all counters of one call: all of them or none. KEYS: the counters; ARGV: a take for each.
-- It answers with what the agent needs to word the verdict by the same arithmetic (redis/codec.rs).
local TAKE, ANSWER, RUN = '<I1I1I1I4I7I7I7I7', '<I1I1I1I4I7I6I2', '<I6I7'
local LATE, REFUSED, CHARGED = 0, 1, 2
local READ_LAST, READ_LEN = '1023', 1024

-- units * part / width, rounded up, exactly.
local function scale_up(units, part, width)
  local product = units * part
  if product < COUNT_MAX then return math.ceil(product / width) end
  local rest = units % width
  local high = rest * floor(part / 65536)
  local low = high % width * 65536 + rest * (part % 65536)
  return floor(units / width) * part + floor(high / width) * 65536 + math.ceil(low / width)
end

local counters, costs, times, answers, room = { [KEYS[1] or ''] = false }, { 0 }, { 0 }, { '' }, true
for i = 1, #KEYS do
  local kind, owed, parts, width, quota, generation, cost, time = parse(TAKE, ARGV[i])
  if owed == 0 and time < now then return pack('<I1I6', LATE, now) end

  -- The counter, from an earlier take of this call or from its key.
  local key = KEYS[i]
  local c = counters[key]
  if not c then
    local value = redis.pcall('GETRANGE', key, '0', READ_LAST)
    local readable = true
    if value == '' then
      c = empty(key, kind, width, parts, now)
    elseif type(value) == 'table' then
      if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
      readable = false
    elseif #value < HEADER_LEN then
      readable = false
    else
      local kind, size, generation, quota, width, parts, last = parse(HEADER, value)
      c = { key = key, kind = kind, generation = generation, quota = quota, width = width, parts = parts, last = last, ring = false }
      if kind == LOG then
        log = log or log_operations()
        readable = log.read(c, value, READ_LEN)
      else
        local slots = (#value - HEADER_LEN) / size
        readable = (kind == 1 or kind == CONSERVATIVE) and slots <= parts + 1 and slots == floor(slots)
        if readable then
          c.ring = { parse('<' .. rep('I' .. size, slots), value, HEADER_LEN + 1) }
          c.ring[slots + 1] = nil -- where reading stopped
        end
      end
    end
    if not readable then return { err = 'UNREADABLE ' .. key } end
  end

  -- Judged by the newest rule that it knows.
  if generation >= c.generation then
    if (c.kind == LOG) ~= (kind == LOG) or c.width ~= width or c.parts ~= parts then
      c = rebuilt(c, kind, width, parts, c.last)
    end
    c.kind, c.quota, c.generation = kind, quota, generation
  end

  -- Moved to the store's time, or with it when it stepped back further than clocks may.
  local last, rebased, part = c.last, 0, c.width / c.parts
  if now < last - CLOCK_ERROR_MAX_MS then
    rebased = 1
    if c.kind == LOG then c = rebuilt(c, LOG, c.width, c.parts, now) end
    c.last = now
  elseif now > last then
    if c.kind == LOG then
      c.gone = log.after(c, now - c.width)
    else
      local back = floor(now / part) - floor(last / part)
      if back > 0 then
        local ring, rolled = c.ring, {}
        local kept = min(#ring, c.parts + 1 - back)
        for slot = 1, kept > 0 and back or 0 do rolled[slot] = 0 end
        for slot = 1, kept do rolled[back + slot] = ring[slot] end
        c.ring = rolled
      end
    end
    c.last = now
  end
  counters[key], last = c, c.last

  -- Units in the window that ends now.
  local held, ring = 0, c.ring
  if c.kind == LOG then
    held = c.count - c.gone
  else
    for slot = 1, #ring do held = held + ring[slot] end
    local oldest = ring[c.parts + 1]
    if oldest and c.kind ~= CONSERVATIVE then
      held = 0
      for slot = 1, c.parts do held = held + ring[slot] end
      held = held + scale_up(oldest, part - last % part, part)
    end
  end
  local admitted = max(c.quota - held, 0) >= cost
  room = room and (admitted or owed == 1)
  costs[i], times[i] = cost, owed == 1 and min(time, last) or last

  -- What there is, as units at instants that read the same: all of it now, when it is only added to.
  local head, runs = pack(ANSWER, c.kind, rebased, c.parts, c.width, c.quota, last, 1), nil
  if admitted and cost > 0 then
    answers[i] = head .. pack(RUN, last, held)
  else
    if c.kind == LOG then
      runs = log.runs(c, cost, held, RUN)
    else
      runs = {}
      for slot = #ring, 1, -1 do
        if ring[slot] > 0 then runs[#runs + 1] = pack(RUN, (floor(last / part) - slot + 1) * part, ring[slot]) end
      end
    end
    answers[i] = string.sub(head, 1, -3) .. pack('<I2', #runs) .. table.concat(runs)
  end
end

if room then
  for i = 1, #KEYS do charge(counters[KEYS[i]], times[i], costs[i]) end
end

-- Each lives until it would be idle.
for key, c in pairs(counters) do
  if c then
    local ttl = c.width + c.width / c.parts + CLOCK_ERROR_MAX_MS
    if c.kind == LOG then
      log.save(c, ttl)
    else
      local ring, most = c.ring, 0
      local slots = #ring
      while slots > 0 and ring[slots] == 0 do slots = slots - 1 end
      for slot = 1, slots do if ring[slot] > most then most = ring[slot] end end
      local size = most < 256 and 1 or most < 65536 and 2 or most < LOW and 4 or 8
      local value = pack(HEADER .. rep('I' .. size, slots), c.kind, size, c.generation, c.quota, c.width, c.parts, c.last,
        unpack(ring, 1, slots))
      redis.call('SET', key, value, 'PX', ttl)
    end
  end
end
return pack('<I1I6', room and CHARGED or REFUSED, now) .. table.concat(answers, '', 1, #KEYS)
