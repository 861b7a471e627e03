-- What only sliding logs do. A long log is not read whole and not written whole: a step looks at single entries, appends,
-- and sets the header anew. Entry i, from 0, is the low 32 bits of its time; all that have not left lie within one window
-- of `last`.
log_operations = function()
  local ENTRIES_MAX, FIELDS = 10000, '<I2I2'
  local sub, concat = string.sub, table.concat
  local ops = {}

  -- Reads a log's own fields; false when they do not fit the value, which is cut off at READ_LEN.
  function ops.read(c, value, read_len)
    if #value < LOG_HEADER_LEN then return false end
    c.gone, c.count = parse(FIELDS, value, HEADER_LEN + 1)
    c.added = {}
    local len = LOG_HEADER_LEN + 4 * c.count
    if #value == len then c.text = sub(value, LOG_HEADER_LEN + 1) end
    return #value == min(len, read_len) and c.gone <= c.count
  end

  -- Makes c.text hold every entry.
  function ops.whole(c)
    local text = c.text or redis.call('GETRANGE', c.key, LOG_HEADER_LEN, '-1')
    c.text, c.added = text .. concat(c.added), {}
  end

  function ops.time_at(c, i)
    local low
    if c.text then
      low = parse('<I4', c.text, 4 * i + 1)
    else
      local at = LOG_HEADER_LEN + 4 * i
      low = parse('<I4', redis.call('GETRANGE', c.key, at, at + 3))
    end
    return c.last - (c.last - low) % LOW
  end

  -- The first entry that is later than `bound`: doubling steps, then halving ones.
  function ops.after(c, bound)
    local time_at, low, step = ops.time_at, c.gone, 1
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

  function ops.newest(c)
    return c.newest or ops.time_at(c, c.count - 1)
  end

  function ops.charge(c, at, units)
    if units == 0 or at + c.width <= c.last then return end
    units = min(units, ENTRIES_MAX)
    local entries = rep(pack('<I4', at % LOW), units)
    if c.count == c.gone or at >= ops.newest(c) then
      c.added[#c.added + 1], c.newest = entries, at
    else
      ops.whole(c)
      local place = 4 * ops.after(c, at)
      c.text = sub(c.text, 1, place) .. entries .. sub(c.text, place + 1)
    end
    c.count = c.count + units
    c.gone = max(c.gone, c.count - ENTRIES_MAX)
  end

  -- Where the verdict lies: so many of the oldest must leave, and the last of them decides; the newest leaves last.
  function ops.runs(c, cost, held, run)
    local leaving = cost > c.quota and 0 or max(held + cost - c.quota, 0)
    local list = {}
    if leaving > 0 then list[1] = pack(run, ops.time_at(c, c.gone + leaving - 1), leaving) end
    if held > leaving then list[#list + 1] = pack(run, ops.newest(c), held - leaving) end
    return list
  end

  -- What has left is cut off once it is a quarter, so that each entry is copied a few times in its life at most.
  function ops.save(c, ttl)
    local cut = c.text or 4 * c.gone > c.count
    if cut then
      ops.whole(c)
      c.text, c.count, c.gone = sub(c.text, 4 * c.gone + 1), c.count - c.gone, 0
    end
    local header = pack(HEADER, LOG, 4, c.generation, c.quota, c.width, c.parts, c.last) .. pack(FIELDS, c.gone, c.count)
    if cut then
      redis.call('SET', c.key, header .. c.text, 'PX', ttl)
    else
      redis.call('SETRANGE', c.key, '0', header)
      if #c.added > 0 then redis.call('APPEND', c.key, concat(c.added)) end
      redis.call('PEXPIRE', c.key, ttl)
    end
  end

  return ops
end
