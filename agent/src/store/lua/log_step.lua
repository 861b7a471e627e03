-- One charge on a short log that is new, or that was charged under this policy, as window_step.lua has it for windows. It decides
-- as the log of log.lua does, which finds the rest faster if many entries have left. A denial leaves the TTL, which covers the
-- newest entry.
if is_sole and mode == 0 and kind >= LOG and now <= time and #first_value < 1024 then
  local value, gone, count, place = first_value, 0, 0, HEADER_LEN + 5
  if value == '' then value = string.sub(first_charge, 2, 30) .. pack('<I6I6I1', now, now, 1) end
  local is_known = #value >= HEADER_LEN
  if is_known then
    of_kind, n, w, q, b, g, born, last, size = parse(HEADER, value)
    if #value > place - 1 then gone, count = parse('<I2I2', value, HEADER_LEN + 1) end
    is_known = kind == of_kind and n == parts and w == width and q == quota and b == burst and g >= generation and now >= last
      and (#value == HEADER_LEN or #value == place - 1 + 4 * count) and gone <= count and cost <= 256
  end
  local leaves_max = gone + 16
  while is_known and gone < count do
    local oldest = last - (last - parse('<I4', value, place + 4 * gone)) % 2 ^ 32
    if oldest > now - width then break end
    gone = gone + 1
    is_known = gone <= leaves_max
  end
  local held = count - gone
  local room = math.max(quota - held, 0) >= cost
  if is_known and (first_value ~= '' or room and cost > 0) then
    local shown = string.sub(first_value, 1, HEADER_LEN)
    if held > 0 then
      -- The entries on which the verdict depends, as in log.lua.
      local leaving = cost > quota and 0 or math.max(held + cost - quota, 0)
      if leaving > 0 then
        local low = parse('<I4', value, place + 4 * (gone + leaving - 1))
        shown = shown .. pack('<I6I7', last - (last - low) % 2 ^ 32, leaving)
      end
      if held > leaving then
        local low = parse('<I4', value, place + 4 * (count - 1))
        shown = shown .. pack('<I6I7', last - (last - low) % 2 ^ 32, held - leaving)
      end
    end
    local part = width / parts
    if room and cost > 0 then
      local ttl = string.format('%.0f', math.min(width + part + CLOCK_ERROR_MAX_MS, TTL_MS_MAX))
      local state = pack('<I6I1I2I2', now, 1, 0, held + cost) .. string.sub(value, place + 4 * gone)
      state = state .. rep(pack('<I4', now % 2 ^ 32), cost)
      redis.call('SET', first, string.sub(value, 1, LAST_PLACE) .. state, 'PX', ttl)
    elseif now > last then
      redis.call('SETRANGE', first, LAST_PLACE, #value > HEADER_LEN and pack('<I6I1I2', now, 1, gone) or pack('<I6', now))
    end
    done = pack('<I1I6I1I2', room and CHARGED or REFUSED, now, 0, #shown) .. shown
  end
end
