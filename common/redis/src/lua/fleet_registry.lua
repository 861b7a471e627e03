-- Announces an agent, or removes it when it leaves, and counts the live ones. KEYS: the sorted set; ARGV: the agent, '1' if
-- it leaves, the ms after which a silent agent is removed.
local agent, leaving, gone_after_ms = ARGV[1], ARGV[2], ARGV[3]
if leaving == '1' then
  redis.call('ZREM', KEYS[1], agent)
else
  redis.call('ZADD', KEYS[1], now, agent)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', now - gone_after_ms))
redis.call('PEXPIRE', KEYS[1], gone_after_ms)
return redis.call('ZCARD', KEYS[1])
