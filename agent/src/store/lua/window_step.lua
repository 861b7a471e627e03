-- The commonest step: one charge on a window without a burst that is new, or that was charged under this policy. `done` is its
-- answer, or nil if the step needs more; then nothing has happened. It decides as evaluate.lua and commit.lua do, without their
-- functions and tables, since Redis makes those anew at each run. A charge of an older generation with an equal policy changes
-- nothing else: the newest generation stays. A newer generation is entered by commit.lua, once.
local first_value = redis.pcall('GETRANGE', first, '0', '1023')
local mode, kind, parts, width, quota, burst, generation, cost, time = parse(CHARGE, first_charge)
local done
local of_kind, n, w, q, b, g, born, last, size
if is_sole and kind <= FIXED and #first_value > HEADER_LEN then
  of_kind, n, w, q, b, g, born, last, size = parse(HEADER, first_value)
  local part, slots = w / n, (#first_value - HEADER_LEN) / size
  if (mode == 0 or mode == LEASE) and kind == of_kind and n == parts and w == width and q == quota and g >= generation
    and now <= time and now >= last and slots % 1 == 0 and slots <= n + 1
    and (size == 1 or size == 2 or size == 4 or size == 8) then
    local count = size == 1 and 'B' or size == 2 and 'H' or size == 4 and 'I4' or 'I8'
    local room, newest
    local ring, used = size == 1 and { string.byte(first_value, HEADER_LEN + 1, -1) }
      or { parse('<' .. rep(count, slots), first_value, HEADER_LEN + 1) }, 0
    local by = math.floor(now / part) - math.floor(last / part)
    if by > 0 then
      slots = math.min(slots, n + 1 - by)
      while slots > 0 and ring[slots] == 0 do slots = slots - 1 end
      if slots <= 0 then slots, by = 0, 1 end
      ring, slots = { unpack(ring, 1 - by, slots) }, slots + by
      for slot = 1, by do ring[slot] = 0 end
    end
    for slot = 1, slots do used = used + ring[slot] end
    if used * part < COUNT_MAX then
      if kind ~= CONSERVATIVE and slots > n then
        used = used - ring[slots] + (kind == FIXED and 0 or math.floor(ring[slots] * (part - now % part) / part))
      end
      room = cost == 0 or used + cost <= quota
      newest = ring[1] + cost
      if mode == LEASE and room then
        local units, agents = parse('<I4I4', first_charge, LEASE_PLACE)
        units = math.min(units, math.floor(math.max(quota - used - cost, 0) / agents))
        newest = newest + units - (cost > 0 and units % cost or 0)
      end
    end
    if newest and newest < (size == 1 and 256 or size == 2 and 65536 or size == 4 and 4294967296 or COUNT_MAX) then
      if by > 0 then
        if room then ring[1] = newest end
        local state = pack('<I6I1' .. rep(count, slots), now, size, unpack(ring, 1, slots))
        local ttl = string.format('%.0f', w + part + CLOCK_ERROR_MAX_MS)
        redis.call('SET', first, string.sub(first_value, 1, LAST_PLACE) .. state, 'PX', ttl)
      elseif room then
        redis.call('SETRANGE', first, LAST_PLACE, pack('<I6I1' .. count, now, size, newest))
      elseif now > last then
        redis.call('SETRANGE', first, LAST_PLACE, pack('<I6', now))
      end
      done = pack('<I1I6I1I2', room and CHARGED or REFUSED, now, 0, #first_value) .. first_value
    end
  end
elseif is_sole and kind <= FIXED and first_value == '' and (mode == 0 or mode == LEASE) and now <= time
  and cost > 0 and cost <= quota then
  local newest = cost
  if mode == LEASE then
    local units, agents = parse('<I4I4', first_charge, LEASE_PLACE)
    units = math.min(units, math.floor((quota - cost) / agents))
    newest = newest + units - units % cost
  end
  if newest < 4294967296 then
    local bytes = newest < 256 and 1 or newest < 65536 and 2 or 4
    local count = bytes == 1 and 'B' or bytes == 2 and 'H' or 'I4'
    local state = pack('<I6I6I1' .. count, now, now, bytes, newest)
    local ttl = string.format('%.0f', width + width / parts + CLOCK_ERROR_MAX_MS)
    redis.call('SET', first, string.sub(first_charge, 2, 30) .. state, 'PX', ttl)
    done = pack('<I1I6I1I2', CHARGED, now, 0, 0)
  end
end
