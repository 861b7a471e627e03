-- Applies the evaluated charges, writes the counters, and answers.

-- Keeps the id of a request on a counter.
local function keep_id(c, name, at)
  local ttl = string.format('%.0f', min(c.lasts_ms, TTL_MS_MAX))
  redis.call('SET', name, string.format('%.0f', at or c.last), 'PX', ttl)
end

for i = 1, #ARGV do
  local c, mode, cost, at, name, void = unpack(charges[i], 1, 6)
  if mode == REFUND then
    -- A refund with a request id is made once. If nothing is left of the charge, its id is void: a retry is charged again.
    if name and c.is_kept then
      keep_id(c, name)
      if void then redis.call('DEL', void) end
    end
  elseif cost and (room or mode ~= ENFORCE) then
    -- A release returns the slot of this instant.
    if name then keep_id(c, name, mode == BACKFILL and c.kind == SLOTS and at) end
    local ring, part = c.ring, c.width / c.parts
    local slot = floor(c.last / part) - floor(at / part) + 1
    if mode == REOPEN then
      local start = floor(at / part) * part
      local held = c.count and log.held(c, start, part) or c.level and meter.held(c, at) or ring[slot] or 0
      cost = max(cost - held, 0)
    end
    if ring then
      if c.spent then reserve.charge(c, cost) end
      if slot <= c.parts + 1 then
        for empty = #ring + 1, slot do ring[empty] = 0 end
        ring[slot] = min(ring[slot] + cost, COUNT_MAX)
      end
    elseif c.count then
      log.charge(c, at, cost)
    else
      meter.charge(c, at, cost)
    end
  end
end

-- A counter lives until it would be idle. The TTL is text, because Redis does not read a large number of Lua as a whole one.
for i = 1, #ARGV do
  local c = charges[i][1]
  if c.is_kept then
    c.is_kept = false
    local ring, size, state, ttl = c.ring, 1, '', c.width + c.width / c.parts
    if ring then
      local slots, most = #ring, 0
      while slots > 0 and ring[slots] == 0 do slots = slots - 1 end
      for slot = 1, slots do if ring[slot] > most then most = ring[slot] end end
      size = most < 256 and 1 or most < 65536 and 2 or most < 4294967296 and 4 or 8
      local count = size == 1 and 'B' or size == 2 and 'H' or size == 4 and 'I4' or 'I8'
      state = pack('<' .. rep(count, slots), unpack(ring, 1, slots))
      if c.spent then
        state = pack('<I7', c.spent) .. state
        ttl = ttl + math.ceil(c.spent / max(c.quota, 1)) * c.width / c.parts
      end
    elseif c.level then
      state, ttl = pack('<I6I7', c.at, c.level), max(ttl, meter.idle_in(c))
    end
    local header = pack(HEADER, c.kind, c.parts, c.width, c.quota, c.burst, c.generation, c.born, c.last, size)
    ttl = string.format('%.0f', min(ttl + CLOCK_ERROR_MAX_MS, TTL_MS_MAX))
    if c.count then log.write(c, header, ttl) else redis.call('SET', c.key, header .. state, 'PX', ttl) end
  end
end
return pack('<I1I6', room and CHARGED or REFUSED, now) .. (answers and table.concat(answers) or answer)
