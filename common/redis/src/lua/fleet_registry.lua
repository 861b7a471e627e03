-- Announces an agent, or removes it when it leaves. Returns the age of the set in ms, and the live agents with the times of
-- their last announcements. KEYS: the sorted set; ARGV: the agent, '1' if it leaves, the ms after which a silent agent is
-- removed, the most agents to return, the ms between two heartbeats. Scores are times of the set: its clock follows the store's,
-- but moves at most one heartbeat from one announcement to the next, and never back. So a step of the store's clock neither
-- removes live agents nor makes a new set old. The set's own times have negative scores, under no agent's name.
local agent, leaving, gone_after_ms, agents_max, interval_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local function own_time(name)
  local score = redis.call('ZSCORE', KEYS[1], name)
  return score and -tonumber(score) or now
end
local time = own_time('\0time') + math.max(0, math.min(interval_ms, now - own_time('\0seen')))
redis.call('ZADD', KEYS[1], 'NX', -time, '\0created')
redis.call('ZADD', KEYS[1], -time, '\0time', -now, '\0seen')
if leaving == '1' then
  redis.call('ZREM', KEYS[1], agent)
else
  redis.call('ZADD', KEYS[1], time, agent)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, '(' .. string.format('%.0f', time - gone_after_ms))
redis.call('PEXPIRE', KEYS[1], gone_after_ms)
local age_ms = math.max(0, time - own_time('\0created'))
return { age_ms, redis.call('ZRANGEBYSCORE', KEYS[1], 0, '+inf', 'WITHSCORES', 'LIMIT', 0, agents_max) }
