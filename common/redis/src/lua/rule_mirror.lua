-- Stores rules unless newer ones are stored, and keeps those before. KEYS: the hash, which has no TTL. ARGV: the generation, or ''
-- for the next one; the generation that they replace, or '' for any; their time in ms, or '' for now; the number of publications to
-- keep; the bytes to keep beside the newest; the file's name, its text, the overrides, the author, the comment; the newest generation
-- that live agents have, above which the next one is.
-- Returns the generation that is stored then, and 1 if it is this one, 0 if newer or other rules than those to be replaced are stored,
-- or 2 if rules that are copied from Kafka are not replaced.
-- Fields: those of the newest publication by their names, those of an older one behind its generation ('7 text'), and `kept`: the
-- older generations from the oldest on, each with its length in bytes ('5:120 7:98 '); `copied`, if they are copied from Kafka.
local fields = { 'name', 'text', 'overrides', 'author', 'comment', 'at' }
local rules = KEYS[1]
local stored = tonumber(redis.call('HGET', rules, 'generation') or 0) or 0
local generation = ARGV[1] == '' and math.max(stored, tonumber(ARGV[11])) + 1 or tonumber(ARGV[1])
local is_expected = ARGV[2] == '' or stored == 0 or tonumber(ARGV[2]) == stored
if ARGV[1] == '' and redis.call('HGET', rules, 'copied') then return { stored, 2 } end
if ARGV[1] ~= '' and generation >= stored then redis.call('HSET', rules, 'copied', '1') end
if generation == stored then return { stored, 1 } end
if generation < stored or not is_expected then return { stored, 0 } end

local kept = redis.call('HGET', rules, 'kept') or ''
if stored > 0 then
  local before, length = redis.call('HMGET', rules, unpack(fields)), 0
  local place = string.format('%.0f', stored)
  for i, field in ipairs(fields) do
    local value = before[i] or ''
    length = length + #value
    redis.call('HSET', rules, place .. ' ' .. field, value)
  end
  kept = kept .. place .. ':' .. length .. ' '
end
local older = {}
for place, length in string.gmatch(kept, '(%d+):(%d+) ') do older[#older + 1] = { place, tonumber(length) } end
local left, bytes, first = tonumber(ARGV[4]) - 1, tonumber(ARGV[5]), #older + 1
while first > 1 and left > 0 and older[first - 1][2] <= bytes do
  first, left, bytes = first - 1, left - 1, bytes - older[first - 1][2]
end
kept = ''
for i, entry in ipairs(older) do
  if i >= first then
    kept = kept .. entry[1] .. ':' .. entry[2] .. ' '
  else
    for _, field in ipairs(fields) do redis.call('HDEL', rules, entry[1] .. ' ' .. field) end
  end
end
local at = ARGV[3] == '' and string.format('%.0f', now) or ARGV[3]
redis.call('HSET', rules, 'generation', string.format('%.0f', generation), 'kept', kept, 'at', at)
for i = 1, 5 do redis.call('HSET', rules, fields[i], ARGV[5 + i]) end
return { generation, 1 }
