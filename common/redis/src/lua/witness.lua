-- Raises a number, and returns the server's time, the number before, or -1, and the server's run id, or '' where INFO
-- is refused. KEYS: the number; ARGV: its value, TTL in ms. A foreign value, of whatever type, counts as missing and is
-- overwritten: an error would part the agents from their store.
local found = redis.pcall('GET', KEYS[1])
if type(found) == 'table' and not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found
end
local is_number = type(found) == 'string' and #found <= 15 and string.find(found, '^%d+$')
local before = is_number and tonumber(found) or -1
redis.call('SET', KEYS[1], string.format('%.0f', math.max(before, ARGV[1])), 'PX', ARGV[2])
local info = redis.pcall('INFO', 'server')
return { now, before, type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '' }
