-- What only logs do. A long log is not read whole and not written whole: a step looks at single entries, appends, and sets
-- the header anew. Entry i, from 0, is the low 32 bits of its time; all that have not left lie within one window of `last`.
make_log = function()
  local ENTRIES_MAX, FIELDS, HEADER, HEADER_LEN, LOW = 10000, '<I2I2', '<I1I1I7I7I4I1I6', 31, 4294967296
  local sub, rep, concat, pack, parse = string.sub, string.rep, table.concat, struct.pack, struct.unpack
  local floor, min, max = math.floor, math.min, math.max
  local log = {}

  function log.open(c)
    c.log, c.gone, c.count, c.text, c.added = log, 0, 0, '', {}
    return c
  end

  -- Reads a log's own fields; false when they do not fit the value, which is cut off at READ_LEN.
  function log.read(c, value, read_len)
    if #value < HEADER_LEN then return false end
    c.gone, c.count = parse(FIELDS, value, HEADER_LEN - 3)
    c.log, c.added = log, {}
    local len = HEADER_LEN + 4 * c.count
    if #value == len then c.text = sub(value, HEADER_LEN + 1) end
    return #value == min(len, read_len) and c.gone <= c.count
  end

  -- Makes c.text hold every entry.
  local function whole(c)
    local text = c.text or redis.call('GETRANGE', c.key, HEADER_LEN, '-1')
    c.text, c.added = text .. concat(c.added), {}
  end

  function log.time_at(c, i)
    local low
    if c.text then
      low = parse('<I4', c.text, 4 * i + 1)
    else
      local at = HEADER_LEN + 4 * i
      low = parse('<I4', redis.call('GETRANGE', c.key, at, at + 3))
    end
    return c.last - (c.last - low) % LOW
  end

  -- The first entry that is later than `bound`: doubling steps, then halving ones.
  local function after(c, bound)
    local time_at, low, step = log.time_at, c.gone, 1
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
    return c.newest or log.time_at(c, c.count - 1)
  end

  function log.charge(c, at, units)
    if units == 0 or at + c.width <= c.last then return end
    units = min(units, ENTRIES_MAX)
    local entries = rep(pack('<I4', at % LOW), units)
    if c.count == c.gone or at >= newest(c) then
      c.added[#c.added + 1], c.newest = entries, at
    else
      whole(c)
      local place = 4 * after(c, at)
      c.text = sub(c.text, 1, place) .. entries .. sub(c.text, place + 1)
    end
    c.count = c.count + units
    c.gone = max(c.gone, c.count - ENTRIES_MAX)
  end

  -- Where the verdict lies: so many of the oldest must leave, and the last of them decides; the newest leaves last.
  function log.runs(c, cost, held, run)
    local leaving = cost > c.quota and 0 or max(held + cost - c.quota, 0)
    local list = {}
    if leaving > 0 then list[1] = pack(run, log.time_at(c, c.gone + leaving - 1), leaving) end
    if held > leaving then list[#list + 1] = pack(run, newest(c), held - leaving) end
    return list
  end

  -- What has left is cut off once it is a quarter, so that each entry is copied a few times in its life at most.
  function log.save(c, ttl)
    local cut = c.text or 4 * c.gone > c.count
    if cut then
      whole(c)
      c.text, c.count, c.gone = sub(c.text, 4 * c.gone + 1), c.count - c.gone, 0
    end
    local header = pack(HEADER, c.kind, 4, c.generation, c.quota, c.width, c.parts, c.last)
      .. pack(FIELDS, c.gone, c.count)
    if cut then
      redis.call('SET', c.key, header .. c.text, 'PX', ttl)
    else
      redis.call('SETRANGE', c.key, '0', header)
      if #c.added > 0 then redis.call('APPEND', c.key, concat(c.added)) end
      redis.call('PEXPIRE', c.key, ttl)
    end
  end

  log.whole, log.after = whole, after
  return log
end
