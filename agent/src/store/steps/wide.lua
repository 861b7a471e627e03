-- What only the kinds with the wide header do, how units are given back, and how very large counts are weighed.
make_wide = function()
  local HEADER, HEADER_LEN, METER = '<I1I1I7I7I6I1I6', 29, '<I7I6I7'
  local floor, max = math.floor, math.max
  local pack, parse = struct.pack, struct.unpack
  local wide = {}

  -- Reads the fields; how many bytes they take, or false when they make no sense.
  function wide.read(c, value, meter)
    if #value < HEADER_LEN then return false end
    local kind, size, generation, quota, width, parts, last = parse(HEADER, value)
    c.kind, c.generation, c.quota, c.width, c.parts, c.last = kind, generation, quota, width, parts, last
    if kind == 4 then return HEADER_LEN, size end
    if #value < HEADER_LEN + 20 then return false end
    local burst, at, level = parse(METER, value, HEADER_LEN + 1)
    if kind < 8 or burst > 0 then meter.open(c, quota, width, burst, at, level) end
    c.burst = burst
    return HEADER_LEN + 20, size
  end

  function wide.head(c, size)
    local head = pack(HEADER, c.kind, size, c.generation, c.quota, c.width, c.parts, c.last)
    if c.kind == 4 then return head end
    return head .. wide.meter(c)
  end

  -- The meter as it is stored and told.
  function wide.meter(c)
    return pack(METER, c.burst, c.meter and c.at or 0, c.meter and c.level or 0)
  end

  -- units * part / width, rounded up, exactly, where the product is not.
  function wide.scale_up(units, part, width)
    local rest = units % width
    local high = rest * floor(part / 65536)
    local low = high % width * 65536 + rest * (part % 65536)
    return floor(units / width) * part + floor(high / width) * 65536 + math.ceil(low / width)
  end

  -- Takes back units that were charged at `at`, as far as they are still there.
  function wide.give_back(c, at, units)
    local ring = c.ring
    if c.log then return c.log.give_back(c, at, units) end
    if ring then
      local part = c.width / c.parts
      local slot = floor(c.last / part) - floor(at / part) + 1
      if slot >= 1 and slot <= #ring then ring[slot] = max(ring[slot] - units, 0) end
    end
    if c.meter then c.meter.give_back(c, units) end
  end

  return wide
end
