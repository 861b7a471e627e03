-- Judges the counters of one call; settle.lua then charges all of those that ask, or none of them, and what is no question
-- in any case.
--
-- KEYS: a counter for each take, then for each take in turn what it wants besides: the key of its request, that of its
-- counter's tentative units. ARGV: a take for each: kind | what and how | n | W | quota | generation | cost | time, then of
-- kinds with a meter the burst, then of tentative takes whose they are and until when anything of their call is charged.
-- It answers with what the agent needs to word the verdict by the same arithmetic (redis/codec.rs).
if #KEYS == 0 then return now end

local TAKE, ANSWER, RUN = '<I1I1I1I6I7I7I7I7', '<I1I1I1I6I7I6I2', '<I6I7'
local OWED, GIVE_BACK, TAKE_BACK, NAMED = 2, 3, 4, 8
local LATE, REFUSED, CHARGED = 0, 1, 2
local READ_LAST, READ_LEN = '1023', 1024

-- Of each take: what it costs, false for nothing; when it is charged, false for a question.
local counters, costs, times, answers, room = { [KEYS[1] or ''] = false }, { 0 }, { 0 }, { '' }, true
-- Of some takes, and made when met: the key of its request, of tentative units, whose those are, which are given back, and
-- the counters that are not there and stay so.
local names, companions, tokens, backs, absent
local extra = #ARGV
for i = 1, #ARGV do
  local kind, what, parts, width, quota, generation, cost, time = parse(TAKE, ARGV[i])
  local burst, manner, key = nil, 0, KEYS[i]
  if kind > FIXED and kind ~= CONCURRENCY then
    burst = parse('<I7', ARGV[i], 38)
    if kind < CONCURRENCY then meter = meter or make_meter() else reserve = reserve or make_reserve() end
  end
  local expires = time
  if what >= NAMED then
    manner = floor(what / NAMED)
    what = what % NAMED
    if manner % 2 == 1 then
      names, extra = names or {}, extra + 1
      names[i] = KEYS[extra]
    end
    if manner >= 2 then
      tentative = tentative or make_tentative()
      companions, extra = companions or {}, extra + 1
      companions[i] = KEYS[extra]
      if manner >= 4 then
        tokens, expires = tokens or {}, parse('<I7', ARGV[i], #ARGV[i] - 6)
        tokens[i] = string.sub(ARGV[i], -15, -8)
      end
    end
  end
  if (what < OWED or manner >= 4) and expires < now then return pack('<I1I6', LATE, now) end

  -- The counter, from an earlier take of this call or from its key.
  local c = counters[key]
  if not c then
    local value = redis.pcall('GETRANGE', key, '0', READ_LAST)
    local readable = true
    if value == '' then
      if kind < LOG or kind == FIXED then
        c = { key = key, kind = kind, generation = 0, quota = quota, width = width, parts = parts, last = now, ring = {} }
      else
        log, meter, reserve = log or make_log(), meter or make_meter(), reserve or make_reserve()
        switch = switch or make_switch(charge, log, meter, reserve)
        c = switch.open(key, kind, quota, width, parts, burst, now)
      end
      if what >= GIVE_BACK then
        absent = absent or {}
        absent[key] = true
      end
    elseif type(value) == 'table' then
      if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
      readable = false
    elseif #value < HEADER_LEN then
      readable = false
    else
      local kind, size, generation, quota, width, parts, last = parse(HEADER, value)
      c = { key = key, kind = kind, generation = generation, quota = quota, width = width, parts = parts, last = last, ring = false }
      if kind == LOG or kind == CONCURRENCY then
        log = log or make_log()
        readable = log.read(c, value, READ_LEN)
      else
        local len = HEADER_LEN
        if kind >= FIXED then
          len = #value >= WIDE_LEN and WIDE_LEN
          if len then kind, size, generation, quota, c.width, c.parts, c.last = parse(WIDE, value) end
          if len and kind >= BURSTING then
            reserve, len = reserve or make_reserve(), #value >= WIDE_LEN + 14 and WIDE_LEN + 14
            if len then
              local spent
              c.burst, spent = parse('<I7I7', value, WIDE_LEN + 1)
              if c.burst > 0 then reserve.open(c, spent) end
            end
          elseif len and kind > FIXED then
            meter = meter or make_meter()
            len = meter.read(c, value)
          end
        end
        if kind == 5 or kind == 6 then
          readable = #value == len
        else
          local slots = len and (#value - len) / size
          readable = len and kind >= INTERPOLATED and kind <= 9 and slots <= c.parts + 1 and slots == floor(slots)
          if readable then
            c.ring = { parse('<' .. rep('I' .. size, slots), value, len + 1) }
            c.ring[slots + 1] = nil -- where reading stopped
          end
        end
      end
    end
    if not readable then return { err = 'UNREADABLE ' .. key } end
  end
  if absent and what < GIVE_BACK then absent[key] = nil end

  -- Judged by the newest rule that it knows; taking back needs none.
  if generation >= c.generation and what ~= TAKE_BACK then
    if c.kind ~= kind or c.width ~= width or c.parts ~= parts or burst and (c.burst ~= burst or c.quota ~= quota) then
      if c.ring and not c.reserve and (kind < LOG or kind == FIXED) and c.width == width and c.parts == parts then
        c.kind, c.burst = kind, nil
      else
        log, meter, reserve = log or make_log(), meter or make_meter(), reserve or make_reserve()
        switch = switch or make_switch(charge, log, meter, reserve)
        c = switch.fit(c, kind, quota, width, parts, burst)
      end
    end
    c.quota, c.generation = quota, generation
  end

  -- Moved to the store's time, or with it when it stepped back further than clocks may.
  local last, flags, part, ring = c.last, 0, c.width / c.parts, c.ring
  if now < last - CLOCK_ERROR_MAX_MS then
    flags = 1
    back = back or make_back()
    back.rebase(c, now)
  elseif now > last then
    if ring then
      local by = floor(now / part) - floor(last / part)
      if by > 0 and c.reserve then
        reserve.roll(c, by)
        ring = c.ring
      elseif by > 0 then
        local rolled = {}
        local kept = #ring
        if kept > c.parts + 1 - by then kept = c.parts + 1 - by end
        for slot = 1, kept > 0 and by or 0 do rolled[slot] = 0 end
        for slot = 1, kept do rolled[by + slot] = ring[slot] end
        c.ring, ring = rolled, rolled
      end
    elseif c.log then
      c.gone = log.after(c, now - c.width)
    end
    c.last = now
  end
  counters[key], last = c, c.last

  -- A request that was charged within the window passes again and costs nothing.
  local judged, charged = cost, cost
  if names then
    local charged_at = names[i] and redis.call('GET', names[i])
    if charged_at and charged_at + c.width > last and what ~= TAKE_BACK then
      judged, charged, flags = 0, false, flags + 2
    end
  end
  costs[i] = charged
  if what == OWED then
    times[i] = time < last and time or last
  elseif what == 0 then
    times[i] = false
  else
    times[i] = last
    if what >= GIVE_BACK then
      judged, times[i] = 0, time
      if what == TAKE_BACK then
        backs = backs or {}
        backs[i] = what
      else
        -- A refund is applied before its answer is made, which shows the counter after it.
        back = back or make_back()
        back.give(c, time, cost)
        costs[i] = false
      end
    end
  end
  -- Units in the window that ends now.
  local held, admitted = 0, true
  if ring then
    for slot = 1, #ring do held = held + ring[slot] end
    local oldest = ring[c.parts + 1]
    if oldest and c.kind ~= CONSERVATIVE and c.kind ~= 9 then
      held = 0
      for slot = 1, c.parts do held = held + ring[slot] end
      if c.kind ~= FIXED then
        local product = oldest * (part - last % part)
        if product < COUNT_MAX then
          held = held + math.ceil(product / part)
        else
          exact = exact or make_exact()
          held = held + exact(oldest, part - last % part, part)
        end
      end
    end
    local left = c.reserve and reserve.left(c, held) or c.quota - held
    admitted = (left > 0 and left or 0) >= judged
  elseif c.log then
    held = c.count - c.gone
    admitted = max(c.quota - held, 0) >= judged
  else
    admitted = meter.admits(c, last, judged)
  end
  if not admitted then
    if what == 0 then room = false end
    if companions and companions[i] then
      exact = exact or make_exact()
      if not tentative.is_firm(c, companions[i], now, judged, exact) then flags = flags + 4 end
    end
  end

  -- What there is, as units at instants that read the same: all of it now, when it is only added to.
  if admitted and judged > 0 and (ring or c.log) and not c.reserve then
    answers[i] = pack(ANSWER, c.kind, flags, c.parts, c.width, c.quota, last, 1) .. pack(RUN, last, held)
  else
    local runs = {}
    if ring then
      for slot = #ring, 1, -1 do
        if ring[slot] > 0 then runs[#runs + 1] = pack(RUN, (floor(last / part) - slot + 1) * part, ring[slot]) end
      end
    elseif c.log then
      runs = log.runs(c, judged, held, RUN)
    end
    answers[i] = pack(ANSWER, c.kind, flags, c.parts, c.width, c.quota, last, #runs) .. table.concat(runs)
  end
  if c.kind >= BURSTING then
    answers[i] = answers[i] .. pack('<I7I7', c.burst, c.spent or 0)
  elseif c.meter then
    answers[i] = answers[i] .. meter.told(c)
  end
end
