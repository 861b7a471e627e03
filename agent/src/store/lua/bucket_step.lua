-- One charge on a bucket that is new, or that was charged under this policy, as window_step.lua has it for windows. It decides as
-- the meter of meter.lua does. A denial leaves the TTL, since the level drains as before.
if is_sole and mode == 0 and kind >= TOKEN_BUCKET and kind < LOG and now <= time then
  local value, at, level = first_value, now, 0
  if value == '' then value = string.sub(first_charge, 2, 30) .. pack('<I6I6I1', now, now, 1) end
  local is_known = #value == HEADER_LEN or #value == HEADER_LEN + 13
  if is_known then
    of_kind, n, w, q, b, g, born, last, size = parse(HEADER, value)
    if #value > HEADER_LEN then at, level = parse('<I6I7', value, HEADER_LEN + 1) end
    is_known = kind == of_kind and n == parts and w == width and q == quota and b == burst and g >= generation and now >= last
  end
  if is_known then
    local max, drains, rest = math.max, quota, width
    while rest > 0 do drains, rest = rest, drains % rest end
    local unit = width / drains
    drains = quota / drains
    level = max(level - drains * max(now - at, 0), 0)
    local room = cost <= burst and max(burst * unit - level, 0) >= cost * unit
    if room and cost > 0 then
      level = math.min(level + cost * unit, COUNT_MAX)
      local by = max(drains, 1)
      local ttl = max(width + width / parts, (level - level % by) / by + math.min(level % by, 1)) + CLOCK_ERROR_MAX_MS
      local state = pack('<I6I1I6I7', now, 1, now, level)
      ttl = string.format('%.0f', math.min(ttl, TTL_MS_MAX))
      redis.call('SET', first, string.sub(value, 1, LAST_PLACE) .. state, 'PX', ttl)
      done = CHARGED
    elseif first_value ~= '' then
      if now > last then redis.call('SETRANGE', first, LAST_PLACE, pack('<I6', now)) end
      done = room and CHARGED or REFUSED
    end
    done = done and pack('<I1I6I1I2', done, now, 0, #first_value) .. first_value
  end
end
