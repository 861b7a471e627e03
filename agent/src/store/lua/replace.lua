-- Replaces a value, unless it has changed since it was read. KEYS: the counter; ARGV: the old value, the new one, its TTL in ms.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
