-- Announces an agent, or removes it when it leaves. Returns the age of the set in ms, and the live agents with the times of
-- their last announcements. KEYS: the sorted set; ARGV: the agent, '1' if it leaves, the ms after which a silent agent is
-- removed, the most agents to return. Scores are times; the creation of the set has a negative one, under no agent's name.
local agent, leaving, gone_after_ms, agents_max = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
redis.call('ZADD', KEYS[1], 'NX', -now, '\0created')
if leaving == '1' then
  redis.call('ZREM', KEYS[1], agent)
else
  redis.call('ZADD', KEYS[1], now, agent)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, '(' .. string.format('%.0f', now - gone_after_ms))
redis.call('PEXPIRE', KEYS[1], gone_after_ms)
local age_ms = math.max(0, now + redis.call('ZSCORE', KEYS[1], '\0created'))
return { age_ms, redis.call('ZRANGEBYSCORE', KEYS[1], 0, '+inf', 'WITHSCORES', 'LIMIT', 0, agents_max) }
