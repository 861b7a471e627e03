-- Stores rules unless newer ones are stored. KEYS: the hash, which has no TTL; ARGV: the generation, or '' for the next one,
-- the file's name, its text. Returns the generation that is stored then.
local stored = tonumber(redis.call('HGET', KEYS[1], 'generation') or 0) or 0
local generation = ARGV[1] == '' and stored + 1 or tonumber(ARGV[1])
if generation > stored then
  stored = generation
  redis.call('HSET', KEYS[1], 'generation', string.format('%.0f', generation), 'name', ARGV[2], 'text', ARGV[3])
end
return stored
