-- The log of admitted units. A long log is neither read nor written whole: a step reads single entries, appends, and writes
-- the header anew. Entry i, from 0, is the low 32 bits of its time; all that have not left lie within one window of `last`.
make_log = function()
  local ENTRIES_MAX, COUNTS, START, LOW = 10000, '<I2I2', HEADER_LEN + 4, 4294967296
  local log = {}

  -- Reads the state; false if it is not that of a log. A long log has no `text`.
  function log.read(c, value)
    c.gone, c.count, c.text, c.added = 0, 0, '', ''
    if #value < START then return #value == HEADER_LEN end
    c.gone, c.count = parse(COUNTS, value, HEADER_LEN + 1)
    local len = START + 4 * c.count
    c.text = #value == len and sub(value, START + 1)
    return #value == min(len, 1024) and c.gone <= c.count
  end

  local function read_all(c)
    c.text, c.added = (c.text or redis.call('GETRANGE', c.key, START, '-1')) .. c.added, ''
  end

  local function time_at(c, i)
    local text, place = c.text, 4 * i
    local low = text and parse('<I4', text, place + 1)
      or parse('<I4', redis.call('GETRANGE', c.key, START + place, START + place + 3))
    return c.last - (c.last - low) % LOW
  end

  local function newest(c)
    c.newest = c.newest or time_at(c, c.count - 1)
    return c.newest
  end

  -- The first entry that is later than `bound`: doubling steps, then halving ones.
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

  function log.advance(c, now)
    c.gone = after(c, now - c.width)
  end

  function log.charge(c, at, units)
    if units == 0 or at + c.width <= c.last then return end
    units = min(units, ENTRIES_MAX)
    local entries, is_newest = rep(pack('<I4', at % LOW), units), c.count == c.gone or at >= newest(c)
    if is_newest and not c.text then
      c.added = c.added .. entries
    else
      read_all(c)
      local place = 4 * (is_newest and c.count or after(c, at))
      c.text = sub(c.text, 1, place) .. entries .. sub(c.text, place + 1)
    end
    if is_newest then c.newest = at end
    c.count = c.count + units
    c.gone = max(c.gone, c.count - ENTRIES_MAX)
  end

  function log.refund(c, at, units)
    read_all(c)
    local from = after(c, at - 1)
    units = min(units, after(c, at) - from)
    c.text = sub(c.text, 1, 4 * from) .. sub(c.text, 4 * (from + units) + 1)
    c.count, c.newest = c.count - units, nil
  end

  -- The entries on which the verdict depends, as runs: those that must leave first, and the newest, which leaves last.
  function log.runs(c, cost)
    local held, runs = c.count - c.gone, ''
    local leaving = cost > c.quota and 0 or max(held + cost - c.quota, 0)
    if leaving > 0 then runs = pack('<I6I7', time_at(c, c.gone + leaving - 1), leaving) end
    if held > leaving then runs = runs .. pack('<I6I7', newest(c), held - leaving) end
    return runs
  end

  -- Entries that have left are cut off once they are a quarter, so that each is copied a few times at most.
  function log.write(c, header, ttl)
    if c.text or 4 * c.gone > c.count then
      read_all(c)
      redis.call('SET', c.key, header .. pack(COUNTS, 0, c.count - c.gone) .. sub(c.text, 4 * c.gone + 1), 'PX', ttl)
    else
      redis.call('SETRANGE', c.key, '0', header .. pack(COUNTS, c.gone, c.count))
      if c.added ~= '' then redis.call('APPEND', c.key, c.added) end
      redis.call('PEXPIRE', c.key, ttl)
    end
  end

  return log
end
