-- Steps of many calls with one charge each, which do not depend on each other. KEYS: the counter of each; ARGV: its charge. The
-- answers follow each other. A step that is not short (`short_steps` in redis/steps.rs) is left to a run of its own, and changes
-- nothing here.
local dones, is_sole = {}, true
for i = 1, #KEYS do
  local first, first_charge = KEYS[i], ARGV[i]
