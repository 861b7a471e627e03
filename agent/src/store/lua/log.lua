-- The log of admitted units. A long log is neither read nor written whole: a step reads single entries, appends, and writes
-- the header anew. Entry i, from 0, is the low 32 bits of its time; all that have not left lie within one window of `last`.
local function make_log(HEADER_LEN)
  local START, ENTRIES_MAX = HEADER_LEN + 4, 10000

  local function read_all(c)
    c.text, c.added = (c.text or redis.call('GETRANGE', c.key, START, '-1')) .. c.added, ''
  end

  -- Time of an entry; 0 if there is none.
  local function time_at(c, i)
    if i < 0 then return 0 end
    local text, place = c.text, 4 * i
    local low = text and struct.unpack('<I4', text, place + 1)
      or struct.unpack('<I4', redis.call('GETRANGE', c.key, START + place, START + place + 3))
    return c.last - (c.last - low) % 2 ^ 32
  end

  -- The first entry that is later than `bound`: doubling steps, then halving ones.
  local function after(c, bound)
    local low, step = c.gone, 1
    while low + step <= c.count and time_at(c, low + step - 1) <= bound do
      low, step = low + step, step * 2
    end
    local high = math.min(low + step - 1, c.count)
    while low < high do
      local middle = math.floor((low + high) / 2)
      if time_at(c, middle) <= bound then low = middle + 1 else high = middle end
    end
    return low
  end

  return {
    read_all = read_all, time_at = time_at, after = after,

    -- Reads the state; false if it is not that of a log. A long log has no `text`.
    read = function(c, value)
      c.gone, c.count, c.text, c.added, c.newest = 0, 0, '', '', 0
      if #value < START then return #value == HEADER_LEN end
      c.gone, c.count = struct.unpack('<I2I2', value, HEADER_LEN + 1)
      local len = START + 4 * c.count
      if #value ~= math.min(len, 1024) or c.gone > c.count then return false end
      c.text = #value == len and string.sub(value, START + 1)
      c.newest = time_at(c, c.count - 1)
      return true
    end,

    -- Number of entries in the sub-window that begins at `start`.
    held = function(c, start, part)
      if c.added ~= '' then read_all(c) end
      return after(c, start + part - 1) - after(c, start - 1)
    end,

    charge = function(c, at, units)
      if units == 0 or at + c.width <= c.last then return end
      units = math.min(units, ENTRIES_MAX)
      local entries = string.rep(struct.pack('<I4', at % 2 ^ 32), units)
      if at >= c.newest then
        c.added, c.newest = c.added .. entries, at
      else
        read_all(c)
        local place = 4 * after(c, at)
        c.text = string.sub(c.text, 1, place) .. entries .. string.sub(c.text, place + 1)
      end
      c.count = c.count + units
      c.gone = math.max(c.gone, c.count - ENTRIES_MAX)
    end,

    -- The entries on which the verdict depends, as runs: those that must leave first, and the newest, which leaves last.
    runs = function(c, cost)
      local held, runs = c.count - c.gone, ''
      local leaving = cost > c.quota and 0 or math.max(held + cost - c.quota, 0)
      if leaving > 0 then runs = struct.pack('<I6I7', time_at(c, c.gone + leaving - 1), leaving) end
      if held > leaving then runs = runs .. struct.pack('<I6I7', c.newest, held - leaving) end
      return runs
    end,

    -- Entries that have left are cut off once they are a quarter, so that each is copied a few times at most.
    write = function(c, header, ttl)
      if c.text or 4 * c.gone > c.count then
        read_all(c)
        local counts = struct.pack('<I2I2', 0, c.count - c.gone)
        redis.call('SET', c.key, header .. counts .. string.sub(c.text, 4 * c.gone + 1), 'PX', ttl)
      else
        redis.call('SETRANGE', c.key, '0', header .. struct.pack('<I2I2', c.gone, c.count))
        if c.added ~= '' then redis.call('APPEND', c.key, c.added) end
        redis.call('PEXPIRE', c.key, ttl)
      end
    end,
  }
end
