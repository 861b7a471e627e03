-- The commonest step, ahead of all functions and tables, since Redis makes those anew at each run: a call with one charge, on
-- a window without a burst that was charged under this policy. It decides as evaluate.lua and commit.lua do.
--
-- A charge: mode | kind | n | W | quota | burst | generation | cost | time, then of a lease the maximum of its units | the number
-- of agents, or of a call in several slots a token | the expiry of the call.
-- A value: kind | n | W | quota | burst | generation | born | last | bytes a count, then the state. `born` is
-- the instant of the first step, by which an agent sees that a value was lost; 0 once the value was re-based.
--   of windows: [spent part of the burst's reserve |] counts, newest first, trailing zeros left out or not; the newest is that of
--     the sub-window of `last`;
--   of buckets: the last charge | the level as of then;
--   of logs: how many entries have left | how many there are | the low 32 bits of each, oldest first.
-- An answer: outcome | now, then for each charge: flags | length | the value as it was read.
local CHARGE, HEADER, HEADER_LEN, LAST_PLACE = '<I1I1I1I6I7I7I7I7I7', '<I1I1I6I7I7I7I6I6I1', 42, '35'
local INTERPOLATED, CONSERVATIVE, FIXED, TOKEN_BUCKET, LOG, SLOTS = 49, 50, 51, 54, 56, 57
local EXPIRED, REFUSED, CHARGED, STALE = 0, 1, 2, 3
local LEASE, LEASE_PLACE = 7, 45
local COUNT_MAX, CLOCK_ERROR_MAX_MS = 2 ^ 53, 1000
local pack, parse, rep = struct.pack, struct.unpack, string.rep

local first = KEYS[1]
if not first then return now end
local first_value = redis.pcall('GETRANGE', first, '0', '1023')
local mode, kind, parts, width, quota, burst, generation, cost, time = parse(CHARGE, ARGV[1])
local of_kind, n, w, q, b, g, born, last, size
if not KEYS[2] and kind <= FIXED and #first_value > HEADER_LEN then
  of_kind, n, w, q, b, g, born, last, size = parse(HEADER, first_value)
  local part, slots = w / n, (#first_value - HEADER_LEN) / size
  if (mode == 0 or mode == LEASE) and kind == of_kind and n == parts and w == width and q == quota and g == generation
    and now <= time and now >= last and slots % 1 == 0 and slots <= n + 1 then
    local count = size == 1 and 'B' or size == 2 and 'H' or size == 4 and 'I4' or 'I8'
    local room, newest
    local ring, used = { parse('<' .. rep(count, slots), first_value, HEADER_LEN + 1) }, 0
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
        used = used - ring[slots] + (kind == FIXED and 0 or math.ceil(ring[slots] * (part - now % part) / part))
      end
      room = cost == 0 or used + cost <= quota
      newest = ring[1] + cost
      if mode == LEASE and room and cost > 0 then
        local units, agents = parse('<I4I4', ARGV[1], LEASE_PLACE)
        units = math.min(units, math.floor(math.max(quota - used - cost, 0) / agents))
        newest = newest + units - units % cost
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
      return pack('<I1I6I1I2', room and CHARGED or REFUSED, now, 0, #first_value) .. first_value
    end
  end
end
