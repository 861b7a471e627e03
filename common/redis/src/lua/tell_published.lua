-- Tells the agents the generation of the published rules, by an own entry of their set (fleet_registry.lua). KEYS: the set; ARGV: the
-- generation; the TTL of a new set in ms.
redis.call('ZADD', KEYS[1], string.format('%.0f', -ARGV[1] - 1), '\0published')
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
