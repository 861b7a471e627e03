-- Units that may yet be refunded, because the other counters of their call lie in other slots. They lie beside their counter,
-- as entries of one string: token of the call | held until | charged when | units. After that instant they are confirmed, and
-- the next charge drops the entry. Only denials, and steps of calls in several slots, read them.
local function make_tentative()
  local ENTRY, LEN, ENTRIES_MAX, HOLD_MAX_MS = '<I6I6I7', 27, 1000, 60000
  local floor, min, max, sub, parse = math.floor, math.min, math.max, string.sub, struct.unpack

  return {
    -- Enters units that are held for twice the time that is left to their call. Past the cap they are confirmed at once.
    enter = function(key, token, expires_at, at, units)
      local text, place = redis.call('GET', key) or '', 1
      while place < #text and parse(ENTRY, text, place + 8) <= now do place = place + LEN end
      text = sub(text, place)
      if #text >= LEN * ENTRIES_MAX then return end
      local hold = min(2 * max(expires_at - now, 1), HOLD_MAX_MS)
      redis.call('SET', key, text .. token .. struct.pack(ENTRY, now + hold, at, units), 'PX', hold + 1000)
    end,

    -- Removes an entry: when it was charged and its units, or nothing when it is confirmed or absent.
    remove = function(key, token)
      local text = redis.call('GET', key) or ''
      for place = #text - LEN + 1, 1, -LEN do
        if sub(text, place, place + 7) == token then
          local hold, at, units = parse(ENTRY, text, place + 8)
          if hold <= now then return end
          local rest = sub(text, 1, place - 1) .. sub(text, place + LEN)
          local ttl = redis.call('PTTL', key)
          if rest == '' then redis.call('DEL', key) else redis.call('SET', key, rest, 'PX', max(ttl, 1)) end
          return at, units
        end
      end
    end,

    -- True if a denial stands without the units that may yet be refunded.
    is_firm = function(c, key, cost)
      local text, part, all, newer, older = redis.call('GET', key) or '', c.width / c.parts, 0, 0, 0
      for place = 1, #text, LEN do
        local hold, at, units = parse(ENTRY, text, place + 8)
        if hold > now then
          all = all + units
          local slot = floor(c.last / part) - floor(at / part) + 1
          if slot <= c.parts then newer = newer + units elseif slot == c.parts + 1 then older = older + units end
        end
      end
      return all == 0 or not admits(c, cost, all, newer, older)
    end,
  }
end
