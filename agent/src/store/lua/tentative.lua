-- Units that may yet be refunded, because the other counters of their call lie in other slots. They lie beside their counter,
-- as entries of one string: token of the call | held until | charged when | units. After that instant they are confirmed, and
-- the next charge drops the entry. Only steps of calls in several slots read them.
local function make_tentative()
  local ENTRY, LEN, ENTRIES_MAX, HOLD_MAX_MS = '<I6I6I7', 27, 1000, 60000
  local min, max, sub, parse = math.min, math.max, string.sub, struct.unpack

  -- True until the hold ends. A hold that ends later than any that begins now is older than a step back of the clock.
  local function is_held(until_ms)
    return until_ms > now and until_ms <= now + HOLD_MAX_MS
  end

  return {
    -- Enters units that are held for twice the time that is left to their call. Past the cap they are confirmed at once.
    enter = function(key, token, expires_at, at, units)
      local text, place = redis.call('GET', key) or '', 1
      while place < #text and not is_held((parse(ENTRY, text, place + 8))) do place = place + LEN end
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
          if not is_held(hold) then return end
          local rest = sub(text, 1, place - 1) .. sub(text, place + LEN)
          local ttl = redis.call('PTTL', key)
          if rest == '' then redis.call('DEL', key) else redis.call('SET', key, rest, 'PX', max(ttl, 1)) end
          return at, units
        end
      end
    end,
  }
end
