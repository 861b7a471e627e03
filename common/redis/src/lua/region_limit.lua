-- Writes a limit of a region, as `StoredLimit::after` in common/core/src/regions decides. Returns the time, the record in force,
-- the floor, and the units of the counter's last window.
--
-- KEYS: the claim of the digest key; the record; of a counter's limit, the counter and the floor of its rule. ARGV: a record; the
-- give-back that the writer has read, or ''; the fingerprint of the writer's digest key.
-- A record: units | until | length of the ledger | from | W | units wanted | moves, both for display | ledger, then
-- of one with a fence its give-back | grant | units kept. That of a
-- counter stays for a day after its last write: until then, a writer that was suspended may come with an older limit, or
-- append a give-back while another process renews the grant. A foreign value counts as none, and is overwritten.
local RECORD, LEDGER_AT, RECORD_LEN, FENCE_LEN = '<I7I7I7I7I7I7I7', 50, 57, 40
local HEADER, HEADER_LEN = '<I1I1I6I7I7I7I6I6I1', 42 -- as in agent/src/store/lua/layout.lua
local INTERPOLATED, FIXED, LAST_WINDOW = 49, 51, 53
local NUMBER_MAX, TTL_MS_MAX, KEPT_MS_MIN = 2 ^ 53 - 1, 3155760000000, 86400000
local CLAIM_MS = 10000 -- the agents, which admit calls, claim for longer
local min, max, sub, parse, pack = math.min, math.max, string.sub, struct.unpack, struct.pack

-- The value of a key; '' of a missing one, false of one of another type.
local function value_of(command, key, ...)
  local value = redis.pcall(command, key, ...)
  if type(value) ~= 'table' then return value or '' end
  if not string.find(value.err, 'WRONGTYPE', 1, true) then error(value.err, 0) end
  return false
end

local function is_record(value)
  return value and (#value == RECORD_LEN or #value == RECORD_LEN + FENCE_LEN)
end

-- Units in the window that ends now, at least. Those of a bucket or a log are not known until the next charge has converted it.
local function used(key)
  local value = value_of('GETRANGE', key, '0', '1023')
  if value == '' then return 0 end
  if not value or #value < HEADER_LEN then return NUMBER_MAX end
  local kind, parts, width, _, _, _, _, last, size = parse(HEADER, value)
  if kind < INTERPOLATED or kind > LAST_WINDOW then return NUMBER_MAX end
  local part, place, sum = width / parts, HEADER_LEN + (kind > FIXED and 7 or 0), 0
  local by = max(math.floor(now / part) - math.floor(last / part), 0)
  for slot = 1, min(math.floor((#value - place) / size), parts + 1 - by) do
    sum = sum + parse('<I' .. size, value, place + size * (slot - 1) + 1)
  end
  return min(sum, NUMBER_MAX)
end

if not holds_region(KEYS[1], ARGV[3], CLAIM_MS) then return { err = 'OTHERKEY ' .. KEYS[1] } end
local units, ends, as_of, begins, width, wants, moves = parse(RECORD, ARGV[1])
local ledger, fence, seen = sub(ARGV[1], LEDGER_AT, RECORD_LEN), sub(ARGV[1], RECORD_LEN + 1), ARGV[2]
local found = value_of('GET', KEYS[2])
if is_record(found) then
  local old_units, old_ends, old_as_of, old_begins, old_width = parse(RECORD, found)
  local old_fence = sub(found, RECORD_LEN + 1)
  local is_fenced = old_fence ~= '' and sub(old_fence, 1, 16) ~= seen
  local is_same_fence = old_fence ~= '' and fence == old_fence
  local is_refused = as_of < old_as_of or is_fenced and not is_same_fence or is_same_fence and units > old_units
  if is_refused and ledger == sub(found, LEDGER_AT, RECORD_LEN) then
    units, ends, as_of, fence = min(units, old_units), min(ends, old_ends), old_as_of, old_fence
    begins, width = max(begins, old_begins), old_width
  end
end
local record = pack(RECORD, units, ends, as_of, begins, width, wants, moves) .. ledger .. fence
if not KEYS[3] then
  redis.call('SET', KEYS[2], record)
  return { now, record, units, 0 }
end
redis.call('SET', KEYS[2], record, 'PX', string.format('%.0f', max(min(ends - now, TTL_MS_MAX), KEPT_MS_MIN)))
local floor = value_of('GET', KEYS[4])
return { now, record, is_record(floor) and parse(RECORD, floor) or 0, used(KEYS[3]) }
