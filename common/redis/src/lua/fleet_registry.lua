-- Announces an agent, or removes it when it leaves. Returns the age of the set in ms, the live agents with the times of
-- their last announcements, and the time of the agent's announcement before. KEYS: the sorted set; ARGV: the agent, '1' if it leaves, the ms after which a silent agent is
-- removed, the most agents to return, the most ms by which the set's clock moves between two announcements. Scores are times
-- of this clock: it follows the store's, but never makes a longer step, and none back. So a step of the store's clock neither
-- removes live agents nor makes a new set old. The set's own times have negative scores, under no agent's name.
local agent, leaving, gone_after_ms, agents_max, gap_ms_max = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local function own_time(name)
  local score = redis.call('ZSCORE', KEYS[1], name)
  return score and -tonumber(score) or now
end
local before = redis.call('ZSCORE', KEYS[1], agent)
local time = own_time('\0time') + math.max(0, math.min(gap_ms_max, now - own_time('\0seen')))
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
return { age_ms, redis.call('ZRANGEBYSCORE', KEYS[1], 0, '+inf', 'WITHSCORES', 'LIMIT', 0, agents_max), before }
