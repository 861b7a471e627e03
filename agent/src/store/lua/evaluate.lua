-- Evaluates the charges of one step; commit.lua then charges all that are enforced, or none of them, and the others in any
-- case, but for those that are only evaluated.
--
-- KEYS: the counter of each charge, then for each charge in turn, if its mode says so, the key of its request id, and that of
-- the request id that a refund makes void. ARGV: a charge for each. The agent makes the
-- verdicts of the values in the answer, by the same arithmetic (redis/codec.rs). A value whose form or window is not that of the
-- newest policy, or whose clock stepped back, ends the step, which charges nothing: the agent replaces the value
-- (redis/conversion.rs) and repeats the step.
local ENFORCE, EVALUATE, BACKFILL, REFUND, REOPEN, NAMED, WHOLE = 0, 2, 3, 4, 6, 8, 64
local REPEATED = 1

-- Of each charge: its counter, mode, cost (false if it is not charged) and instant; then, of some, the key of the request id, and
-- that of a request id that is void. A step of several charges also has
-- the counters by key and the parts of its answer, so that its time is linear in them.
local charges, answer, room, extra = {}, '', true, #ARGV
local of_key, answers = extra > 1 and {}, extra > 1 and {}
for i = 1, #ARGV do
  if i > 1 then mode, kind, parts, width, quota, burst, generation, cost, time = parse(CHARGE, ARGV[i]) end
  local key, expires_at, flags = KEYS[i], time, 0
  local name, leased, agents, void
  if mode >= NAMED then
    local is_named, is_whole = floor(mode / NAMED) % 2 == 1, mode >= WHOLE
    mode = mode % NAMED
    if is_named then
      extra = extra + 1
      name = KEYS[extra]
    end
    if is_whole then
      extra = extra + 1
      void = KEYS[extra]
    end
  end
  if mode == LEASE then
    mode, leased, agents = ENFORCE, parse('<I4I4', ARGV[i], LEASE_PLACE)
  end
  if mode < BACKFILL and expires_at < now then return pack('<I1I6', EXPIRED, now) end

  -- The counter, from an earlier charge of this step or from its key.
  local c = of_key and of_key[key]
  if not c then
    local value = i == 1 and first_value or redis.pcall('GETRANGE', key, '0', '1023')
    if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
    local raw = value
    if value == '' then value = sub(ARGV[i], 2, 30) .. pack('<I6I6I1', now, now, 1) end
    local readable = #value >= HEADER_LEN
    if readable then
      if i > 1 or not of_kind then of_kind, n, w, q, b, g, born, last, size = parse(HEADER, value) end
      c = {
        key = key, raw = raw, kind = of_kind, parts = n, width = w, quota = q, burst = b, generation = g, born = born,
        last = last, ring = false, is_kept = false,
      }
      if of_kind >= LOG then
        log = log or make_log(HEADER_LEN)
        readable = of_kind <= SLOTS and log.read(c, value)
      elseif of_kind >= TOKEN_BUCKET then
        meter = meter or make_meter(HEADER_LEN, CLOCK_ERROR_MAX_MS)
        readable = meter.read(c, value)
      else
        local place = HEADER_LEN + 1
        if of_kind > FIXED then
          reserve, c.spent = reserve or make_reserve(), 0
          if #value >= HEADER_LEN + 7 then c.spent, place = parse('<I7', value, place) end
        end
        local slots = (#value + 1 - place) / size
        readable = of_kind >= INTERPOLATED and slots <= n + 1 and slots % 1 == 0
        if readable then
          local count = size == 1 and 'B' or size == 2 and 'H' or size == 4 and 'I4' or 'I8'
          c.ring = { parse('<' .. rep(count, slots), value, place) }
          c.ring[slots + 1] = nil -- where reading stopped
        end
      end
    end
    if not readable then return { err = 'UNREADABLE ' .. key } end
    if of_key then of_key[key] = c end
  end

  -- The newest policy that is known holds.
  local is_newest = generation >= c.generation
  if now < c.last - CLOCK_ERROR_MAX_MS or is_newest and (parts ~= c.parts or width ~= c.width
    -- Another form of state: counts, a meter or a log.
    or (kind >= TOKEN_BUCKET) ~= (c.kind >= TOKEN_BUCKET) or (kind >= LOG) ~= (c.kind >= LOG)) then
    return pack('<I1I6I2', STALE, now, i - 1) .. (c.count and redis.call('GET', key) or c.raw)
  end
  if is_newest then
    if c.level and (quota ~= c.quota or burst ~= c.burst) then meter.follow(c, quota, burst) end
    c.kind, c.quota, c.burst, c.generation = kind, quota, burst, generation
    if c.ring and kind > FIXED then
      reserve = reserve or make_reserve()
      reserve.follow(c)
    else
      c.spent = nil
    end
  end
  -- Neither a refund nor an evaluation makes a counter.
  c.is_kept = c.is_kept or (mode < REFUND or mode == REOPEN) and mode ~= EVALUATE or c.raw ~= ''

  if now > c.last then
    if c.ring then
      local part = c.width / c.parts
      local by = floor(now / part) - floor(c.last / part)
      if by > 0 and c.spent then reserve.roll(c, by) elseif by > 0 then shift(c, by) end
    elseif c.count then
      c.gone = log.after(c, now - c.width)
    end
    c.last = now
  end

  -- A request whose charge may still count is admitted again and costs nothing. Its id is kept for that time.
  local needed, charged, at = cost, cost, c.last
  if name then c.lasts_ms = c.level and meter.lasts_ms(c) or c.width end
  local charged_at = name and redis.call('GET', name)
  local known = charged_at and charged_at + c.lasts_ms > c.last
  -- A request that was released may hold a slot again. The decision on it is later than the earlier release then.
  local held_at = mode == REFUND and void and c.kind == SLOTS and redis.call('GET', void)
  if held_at and held_at + c.lasts_ms > c.last then
    known = known and time < tonumber(charged_at)
    time = tonumber(held_at)
  end
  if known then needed, charged, flags = 0, false, REPEATED end
  if mode == EVALUATE then
    charged = false
  elseif mode == REOPEN then
    at, needed = min(time, at), 0
  elseif mode == BACKFILL then
    -- On a counter that ignores a small step back of the clock, units are as old as they are by the clock.
    at = time <= now and time + at - now or min(time, at)
  elseif mode == REFUND then
    needed = 0
    -- The answer to a refund, and to charges after it, shows the counter after the refund.
    if charged then refund(c, time, cost) end
    charged, name = false, charged and name
  end
  if mode == ENFORCE and not admits(c, needed) then
    room = false
  elseif leased and charged and c.ring and not c.spent then
    leased = min(leased, floor(max(c.quota - used(c) - cost, 0) / agents))
    charged = charged + leased - (cost > 0 and leased % cost or 0)
  end
  charges[i] = { c, mode, charged, at, name, void }
  local shown, runs = c.raw, ''
  if c.count and shown ~= '' then shown, runs = sub(shown, 1, HEADER_LEN), log.runs(c, needed) end
  answer = pack('<I1I2', flags, #shown + #runs) .. shown .. runs
  if answers then answers[i] = answer end
end
