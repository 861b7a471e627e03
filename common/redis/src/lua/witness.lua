-- Raises a number, and returns the server's time and the number before, or -1. KEYS: the number; ARGV: its value, TTL in ms.
local before = tonumber(redis.call('GET', KEYS[1]) or -1)
redis.call('SET', KEYS[1], string.format('%.0f', math.max(before, ARGV[1])), 'PX', ARGV[2])
return { now, before }
