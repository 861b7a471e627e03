-- Charges what was judged, writes the counters, and answers.
for i = 1, #ARGV do
  local c, cost, at = counters[KEYS[i]], costs[i], times[i]
  if cost and (room or at) then
    if backs and backs[i] then
      local units
      at, units = tentative.leave(companions[i], tokens[i], now)
      if at then
        if names and names[i] then redis.call('DEL', names[i]) end
        back = back or make_back()
        back.give(c, at, units)
      end
    else
      charge(c, at or c.last, cost)
      local name = names and names[i]
      if name then redis.call('SET', name, string.format('%.0f', c.last), 'PX', c.width) end
      if tokens and tokens[i] and not at and (cost > 0 or name) then
        tentative.enter(companions[i], tokens[i], now, parse('<I7', ARGV[i], #ARGV[i] - 6), c.last, cost)
      end
    end
  end
end

-- Each lives until it would be idle, at most a hundred years: what a huge burst has spent may take longer to come back than
-- Redis takes for a TTL. As text, for a large number reads as no whole one.
for key, c in pairs(counters) do
  if c and not (absent and absent[key]) then
    local kind, ring = c.kind, c.ring
    local ttl = c.width + c.width / c.parts + CLOCK_ERROR_MAX_MS
    if c.log then
      log.save(c, ttl)
    else
      if c.meter then ttl = max(ttl, meter.ttl(c) + CLOCK_ERROR_MAX_MS) end
      if c.reserve then ttl = ttl + reserve.fills_in(c) end
      local slots, most = ring and #ring or 0, 0
      while slots > 0 and ring[slots] == 0 do slots = slots - 1 end
      for slot = 1, slots do if ring[slot] > most then most = ring[slot] end end
      local size = most < 256 and 1 or most < 65536 and 2 or most < 4294967296 and 4 or 8
      local value
      if kind > LOG then
        value = pack(WIDE, kind, size, c.generation, c.quota, c.width, c.parts, c.last)
        if kind >= BURSTING then
          value = value .. pack('<I7I7', c.burst, c.spent or 0)
        elseif kind > FIXED then
          value = value .. meter.told(c)
        end
        if slots > 0 then value = value .. pack('<' .. rep('I' .. size, slots), unpack(ring, 1, slots)) end
      else
        value = pack(HEADER .. rep('I' .. size, slots), kind, size, c.generation, c.quota, c.width, c.parts, c.last,
          unpack(ring, 1, slots))
      end
      redis.call('SET', key, value, 'PX', string.format('%.0f', ttl < TTL_MAX_MS and ttl or TTL_MAX_MS))
    end
  end
end
return pack('<I1I6', room and CHARGED or REFUSED, now) .. table.concat(answers, '', 1, #ARGV)
