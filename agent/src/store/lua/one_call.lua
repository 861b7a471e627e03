-- A step of one call. Without a key, the script returns the time.
local first, first_charge = KEYS[1], ARGV[1]
if not first then return now end
local is_sole = not KEYS[2]
