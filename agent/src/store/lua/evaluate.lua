-- Evaluates the charges of one step; commit.lua then charges all that are enforced, or none of them, and the others in any
-- case, but for those that are only evaluated.
--
-- KEYS: the counter of each charge, then for each charge in turn, if its mode says so, the key of its request id and that of
-- its counter's tentative units. ARGV: a charge for each. The agent makes the verdicts of the values in the answer, by the same
-- arithmetic (redis/codec.rs). A value whose form or window is not that of the newest policy, or whose clock stepped back, ends
-- the step, which charges nothing: the agent replaces the value (redis/conversion.rs) and repeats the step.
local ENFORCE, EVALUATE, BACKFILL, REFUND, TAKE_BACK, NAMED = 0, 2, 3, 4, 5, 8
local REPEATED, LOOSE = 1, 2

-- The first kind with the same form of state: counts, a meter or a log.
local function form(of_kind)
  return of_kind >= LOG and LOG or of_kind >= TOKEN_BUCKET and TOKEN_BUCKET or INTERPOLATED
end

-- Of each charge: its counter, cost (false if it is not charged), mode, instant.
local counters, costs, modes, times, answers, room = { [first] = false }, { 0 }, { 0 }, { 0 }, { '' }, true
-- Of some charges: the key of the request id, that of tentative units, the token of the call.
local names, companions, tokens
local extra = #ARGV
for i = 1, #ARGV do
  if i > 1 then mode, kind, parts, width, quota, burst, generation, cost, time = parse(CHARGE, ARGV[i]) end
  local key, expires_at, flags = KEYS[i], time, 0
  if mode >= NAMED then
    local wants = floor(mode / NAMED)
    mode = mode % NAMED
    if wants % 2 == 1 then
      names, extra = names or {}, extra + 1
      names[i] = KEYS[extra]
    end
    if wants >= 2 then
      tentative = tentative or make_tentative()
      companions, extra = companions or {}, extra + 1
      companions[i] = KEYS[extra]
      if wants >= 4 then
        tokens, expires_at = tokens or {}, parse('<I7', ARGV[i], #ARGV[i] - 6)
        tokens[i] = sub(ARGV[i], -15, -8)
      end
    end
  end
  if (mode < BACKFILL or tokens and tokens[i]) and expires_at < now then return pack('<I1I6', EXPIRED, now) end

  -- The counter, from an earlier charge of this step or from its key.
  local c = counters[key]
  if not c then
    local value = i == 1 and first_value or redis.pcall('GETRANGE', key, '0', '1023')
    if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
    local raw = value
    if value == '' then value = sub(ARGV[i], 2, 30) .. pack('<I6I1', now, 1) end
    local readable = #value >= HEADER_LEN
    if readable then
      if i > 1 or not of_kind then of_kind, n, w, q, b, g, last, size = parse(HEADER, value) end
      c = {
        key = key, raw = raw, kind = of_kind, parts = n, width = w, quota = q, burst = b, generation = g, last = last,
        ring = false, is_kept = false,
      }
      if c.kind >= LOG then
        log = log or make_log()
        readable = c.kind <= SLOTS and log.read(c, value)
      elseif c.kind >= TOKEN_BUCKET then
        meter = meter or make_meter()
        readable = meter.read(c, value)
      else
        local place = HEADER_LEN + 1
        if c.kind > FIXED then
          reserve, c.spent = reserve or make_reserve(), 0
          if #value >= HEADER_LEN + 7 then c.spent, place = parse('<I7', value, place) end
        end
        local slots = (#value + 1 - place) / size
        readable = c.kind >= INTERPOLATED and slots <= c.parts + 1 and slots % 1 == 0
        if readable then
          local count = size == 1 and 'B' or size == 2 and 'H' or size == 4 and 'I4' or 'I8'
          c.ring = { parse('<' .. rep(count, slots), value, place) }
          c.ring[slots + 1] = nil -- where reading stopped
        end
      end
    end
    if not readable then return { err = 'UNREADABLE ' .. key } end
    counters[key] = c
  end

  -- The newest policy that is known holds; a refund of tentative units needs none.
  local is_newest = generation >= c.generation and mode ~= TAKE_BACK
  if now < c.last - CLOCK_ERROR_MAX_MS or is_newest and (parts ~= c.parts or width ~= c.width
    or kind ~= c.kind and form(kind) ~= form(c.kind)) then
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
  c.is_kept = c.is_kept or mode < REFUND and mode ~= EVALUATE or c.raw ~= ''

  if now > c.last then
    if c.ring then
      local part = c.width / c.parts
      local by = floor(now / part) - floor(c.last / part)
      if by > 0 and c.spent then reserve.roll(c, by) elseif by > 0 then shift(c, by) end
    elseif c.count then
      log.advance(c, now)
    end
    c.last = now
  end

  -- A request that was charged within the window is admitted again and costs nothing.
  local needed, charged, at = cost, cost, c.last
  local charged_at = names and names[i] and mode ~= TAKE_BACK and redis.call('GET', names[i])
  if charged_at and charged_at + c.width > c.last then needed, charged, flags = 0, false, REPEATED end
  if mode == EVALUATE then
    charged = false
  elseif mode == BACKFILL then
    at = min(time, at)
  elseif mode >= REFUND then
    refund, needed = refund or make_refund(), 0
    -- The answer to a refund, and to charges after it, shows the counter after the refund.
    if mode == REFUND then
      refund(c, time, cost)
      charged = false
    end
  end
  costs[i], modes[i], times[i] = charged, mode, at

  if not admits(c, needed, 0, 0, 0) then
    if mode == ENFORCE then room = false end
    if companions and companions[i] and not tentative.is_firm(c, companions[i], needed) then flags = flags + LOOSE end
  end
  local shown = c.raw
  if c.count and shown ~= '' then shown = sub(shown, 1, HEADER_LEN) .. log.runs(c, needed) end
  answers[i] = pack('<I1I2', flags, #shown) .. shown
end
