-- A counter as one string: a header, then counts or timestamps. What follows equals `State` in common/src/algorithm.
--
-- kind | bytes a slot | generation | quota | W ms | n | last ms, then
--   of a sliding window (kind 1 interpolated, 2 conservative): the counts, newest first, without trailing zeros; the newest
--     is that of the sub-window of `last`;
--   of a sliding log (kind 3): how many entries have left, how many there are, then the low 32 bits of each, oldest first.
-- A long log is not read whole and not written whole: a step looks at single entries, appends, and sets the header anew.
local HEADER, HEADER_LEN, LOG_HEADER, LOG_HEADER_LEN = '<I1I1I7I7I4I1I6', 27, '<I1I1I7I7I4I1I6I2I2', 31
local CONSERVATIVE, LOG = 2, 3
local READ_LAST, READ_LEN, LOG_MAX, COUNT_MAX, LOW = '1023', 1024, 10000, 9007199254740992, 4294967296
local CLOCK_ERROR_MAX_MS = 1000
local floor, min, max = math.floor, math.min, math.max
local pack, parse, rep, sub, concat = struct.pack, struct.unpack, string.rep, string.sub, table.concat

-- The counter under a key, nil when there is none; or an error to answer with.
local function read(key)
  local value = redis.pcall('GETRANGE', key, '0', READ_LAST)
  if value == '' then return nil end
  local foreign = { err = 'UNREADABLE ' .. key }
  if type(value) == 'table' then
    return nil, string.find(value.err, 'WRONGTYPE', 1, true) and foreign or value
  end
  if #value < HEADER_LEN then return nil, foreign end
  local kind, size, generation, quota, width, parts, last = parse(HEADER, value)
  local c = { key = key, kind = kind, generation = generation, quota = quota, width = width, parts = parts, last = last }
  if kind == LOG and #value >= LOG_HEADER_LEN then
    c.gone, c.count = parse('<I2I2', value, HEADER_LEN + 1)
    c.added = {}
    local len = LOG_HEADER_LEN + 4 * c.count
    if #value == len then c.text = sub(value, LOG_HEADER_LEN + 1) end
    if #value == min(len, READ_LEN) and c.gone <= c.count then return c end
  elseif kind == 1 or kind == CONSERVATIVE then
    local slots = (#value - HEADER_LEN) / size
    if slots <= parts + 1 and slots == floor(slots) then
      c.ring = { parse('<' .. rep('I' .. size, slots), value, HEADER_LEN + 1) }
      c.ring[slots + 1] = nil -- where reading stopped
      return c
    end
  end
  return nil, foreign
end

local function empty(key, kind, width, parts, last)
  local c = { key = key, kind = kind, generation = 0, quota = 0, width = width, parts = parts, last = last }
  if kind == LOG then
    c.gone, c.count, c.text, c.added = 0, 0, '', {}
  else
    c.ring = {}
  end
  return c
end

-- Makes c.text hold every entry of a log.
local function whole(c)
  local text = c.text or redis.call('GETRANGE', c.key, LOG_HEADER_LEN, '-1')
  c.text, c.added = text .. concat(c.added), {}
end

-- When entry i of a log, from 0, was admitted. All that have not left lie within one window of `last`.
local function time_at(c, i)
  local low
  if c.text then
    low = parse('<I4', c.text, 4 * i + 1)
  else
    local at = LOG_HEADER_LEN + 4 * i
    low = parse('<I4', redis.call('GETRANGE', c.key, at, at + 3))
  end
  return c.last - (c.last - low) % LOW
end

-- The first entry of a log that is later than `bound`: doubling steps, then halving ones.
local function after(c, bound)
  local low, step = c.gone, 1
  while low + step <= c.count and time_at(c, low + step - 1) <= bound do
    low, step = low + step, step * 2
  end
  local high = min(low + step - 1, c.count)
  while low < high do
    local middle = floor((low + high) / 2)
    if time_at(c, middle) <= bound then low = middle + 1 else high = middle end
  end
  return low
end

local function newest(c)
  return c.newest or time_at(c, c.count - 1)
end

-- Enters units that were admitted at `at`, an instant not after `last`.
local function charge(c, at, units)
  if units == 0 then return end
  if c.kind ~= LOG then
    local part, ring = c.width / c.parts, c.ring
    local slot = floor(c.last / part) - floor(at / part) + 1
    if slot > c.parts + 1 then return end
    for i = #ring + 1, slot do ring[i] = 0 end
    ring[slot] = min(ring[slot] + units, COUNT_MAX)
    return
  end
  if at + c.width <= c.last then return end
  units = min(units, LOG_MAX)
  local entries = rep(pack('<I4', at % LOW), units)
  if c.count == c.gone or at >= newest(c) then
    c.added[#c.added + 1], c.newest = entries, at
  else
    whole(c)
    local place = 4 * after(c, at)
    c.text = sub(c.text, 1, place) .. entries .. sub(c.text, place + 1)
  end
  c.count = c.count + units
  if c.count - c.gone > LOG_MAX then c.gone = c.count - LOG_MAX end
end

-- The same counts in another algorithm or window, or with the clock that stepped back to `last`.
local function rebuilt(c, kind, width, parts, last)
  local fresh, back = empty(c.key, kind, width, parts, last), c.last - last
  fresh.generation, fresh.quota = c.generation, c.quota
  if c.kind == LOG then
    whole(c)
    for i = c.gone, c.count - 1 do charge(fresh, time_at(c, i) - back, 1) end
  else
    local part = c.width / c.parts
    local current = floor(c.last / part)
    for i = #c.ring, 1, -1 do
      charge(fresh, min((current - i + 2) * part - 1, c.last) - back, c.ring[i])
    end
  end
  if kind == LOG then whole(fresh) end
  return fresh
end

-- Moves a counter to the store's time; says whether that had stepped back further than clocks may.
local function advance(c)
  if now < c.last then
    if c.last - now <= CLOCK_ERROR_MAX_MS then return c, 0 end
    if c.kind == LOG then return rebuilt(c, LOG, c.width, c.parts, now), 1 end
    c.last = now
    return c, 1
  end
  if c.kind == LOG then
    c.gone = after(c, now - c.width)
  else
    local part, ring = c.width / c.parts, c.ring
    local back = floor(now / part) - floor(c.last / part)
    if back > 0 then
      local rolled, kept = {}, min(#ring, c.parts + 1 - back)
      if kept > 0 then
        for i = 1, back do rolled[i] = 0 end
        for i = 1, kept do rolled[back + i] = ring[i] end
      end
      c.ring = rolled
    end
  end
  c.last = now
  return c, 0
end

-- units * part / width, rounded up, exactly.
local function scale_up(units, part, width)
  local product = units * part
  if product < COUNT_MAX then return math.ceil(product / width) end
  local rest = units % width
  local high = rest * floor(part / 65536)
  local low = high % width * 65536 + rest * (part % 65536)
  return floor(units / width) * part + floor(high / width) * 65536 + math.ceil(low / width)
end

-- Units in the window that ends at `last`.
local function used(c)
  if c.kind == LOG then return c.count - c.gone end
  local ring, parts, sum = c.ring, c.parts, 0
  for i = 1, min(#ring, parts) do sum = sum + ring[i] end
  local oldest = ring[parts + 1]
  if not oldest then return sum end
  if c.kind == CONSERVATIVE then return sum + oldest end
  local part = c.width / parts
  return sum + scale_up(oldest, part - c.last % part, part)
end

-- Writes a counter, to live until it would be idle.
local function save(c)
  local ttl = c.width + c.width / c.parts + CLOCK_ERROR_MAX_MS
  if c.kind ~= LOG then
    local ring, slots, most = c.ring, #c.ring, 0
    while slots > 0 and ring[slots] == 0 do slots = slots - 1 end
    for i = 1, slots do if ring[i] > most then most = ring[i] end end
    local size = most < 256 and 1 or most < 65536 and 2 or most < LOW and 4 or 8
    local value = pack(HEADER .. rep('I' .. size, slots), c.kind, size, c.generation, c.quota, c.width, c.parts, c.last,
      unpack(ring, 1, slots))
    redis.call('SET', c.key, value, 'PX', ttl)
    return
  end
  -- What has left is cut off once it is a quarter, so that each entry is copied a few times in its life at most.
  local cut = c.text or 4 * c.gone > c.count
  if cut then
    whole(c)
    c.text, c.count, c.gone = sub(c.text, 4 * c.gone + 1), c.count - c.gone, 0
  end
  local header = pack(LOG_HEADER, LOG, 4, c.generation, c.quota, c.width, c.parts, c.last, c.gone, c.count)
  if cut then
    redis.call('SET', c.key, header .. c.text, 'PX', ttl)
  else
    redis.call('SETRANGE', c.key, '0', header)
    if #c.added > 0 then redis.call('APPEND', c.key, concat(c.added)) end
    redis.call('PEXPIRE', c.key, ttl)
  end
end
