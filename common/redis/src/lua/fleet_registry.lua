-- Announces an agent with its rules, or removes it when it leaves. KEYS: the sorted set of agents.
-- ARGV: the agent; '1' if it leaves; the ms after which a silent agent is removed; the most
-- agents to return; the most ms by which the set's clock moves between two announcements; the fingerprint of the agent's digest
-- key; the numbering of its rules, or '' without rules; their generation; the rank that they were given, or 0; the ms after which
-- rules that no agent announces are gone.
-- Returns the age of the set in ms, the live agents with the times of their last announcements, the time of the agent's
-- announcement before, the rank of its rules, the greatest rank, the generation of the published rules (tell_published.lua), and
-- the number of other digest keys.
-- Scores are times of the set's clock: it follows the store's, but never makes a longer step, and none back. So a step of the
-- store's clock neither removes live agents nor makes a new set old. The set's own entries have negative scores, under no
-- agent's name.
local agents_key = KEYS[1]
local agent, leaving, gone_after_ms, agents_max, gap_ms_max = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local digest_key, numbering, generation, rank = '\0key ' .. ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local rules_gone_after_ms = tonumber(ARGV[10])

local own, entries = {}, redis.call('ZRANGEBYSCORE', agents_key, '-inf', '(0', 'WITHSCORES')
for i = 1, #entries, 2 do own[entries[i]] = -tonumber(entries[i + 1]) end
local function put(name, number)
  own[name] = number
  redis.call('ZADD', agents_key, string.format('%.0f', -number), name)
end

local before = redis.call('ZSCORE', agents_key, agent)
local passed_ms = math.max(0, now - (own['\0seen'] or now))
local time = (own['\0time'] or now) + math.min(gap_ms_max, passed_ms)
if not own['\0created'] then put('\0created', time) end
put('\0time', time)
put('\0seen', now)
if leaving == '1' then
  redis.call('ZREM', agents_key, agent)
else
  redis.call('ZADD', agents_key, time, agent)
  put(digest_key, time)
end
redis.call('ZREMRANGEBYSCORE', agents_key, 0, '(' .. string.format('%.0f', time - gone_after_ms))
redis.call('PEXPIRE', agents_key, gone_after_ms)

-- The rules of one numbering are ordered by generation, and all others by the time of their first announcement. Rules that no live
-- agent has are no longer the newest. An entry holds 1 more than a number, so that its score is negative. Nobody is gone because
-- nobody could announce anything: after such a time, the wait begins anew. Rules that were only late are announced again: those
-- with a rank between `above` and `below`, which older rules have passed, pass those in turn.
local silent_ms = passed_ms > rules_gone_after_ms and 1 or (own['\0silent'] or 1) + passed_ms
put('\0silent', silent_ms)
local newest = own['\0rank'] or rank > 0 and rank or now
if leaving ~= '1' and numbering ~= '' then
  local of, known, known_rank, last = '\0rules ' .. numbering, nil, nil, own['\0last ' .. numbering]
  if last and time - last <= rules_gone_after_ms then known, known_rank = own[of] - 1, own['\0rank ' .. numbering] end
  if known and generation > known then
    rank = 0
  elseif known then
    -- The ranks of older rules have a lower bound: a generation may be a time.
    rank = math.max(1, known_rank - math.min(known - generation, 1000))
  end
  local is_late = rank > (own['\0above'] or 1) - 1 and rank < (own['\0below'] or 1) - 1
  if rank == 0 then
    rank = newest + 1
    put('\0below', 1)
  elseif rank < newest and (is_late or silent_ms > rules_gone_after_ms) then
    local above = rank + 1
    if not is_late then
      -- Rules that passed others before are still older than those.
      if own['\0passing'] == above then above = own['\0passed'] end
      put('\0passed', above)
      put('\0passing', newest + 2)
      put('\0below', newest + 2)
    end
    put('\0above', above)
    rank = newest + 1
  end
  if rank >= newest then
    newest = rank
    put('\0rank', newest)
    put('\0silent', 1)
  end
  if numbering ~= 'load-time' then
    put('\0last ' .. numbering, time)
    if not known or generation > known or rank > known_rank then
      put(of, generation + 1)
      put('\0rank ' .. numbering, rank)
    end
  end
end

local other_keys = 0
for name, number in pairs(own) do
  if string.sub(name, 1, 5) == '\0key ' and name ~= digest_key then
    if time - number > gone_after_ms then
      redis.call('ZREM', agents_key, name)
    else
      other_keys = other_keys + 1
    end
  end
end
local age_ms = math.max(0, time - own['\0created'])
local agents = redis.call('ZRANGEBYSCORE', agents_key, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, agents_max)
local published = own['\0published']
return { age_ms, agents, before, rank, newest, published and published - 1 or false, other_keys }
