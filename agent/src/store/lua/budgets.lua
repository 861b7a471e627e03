-- Puts the quota in force into each charge with a budget, before the step: the floor, and the units that the region has been granted
-- until a term ends (common/redis/src/lua/region_limit.lua). The rest of the script knows no budgets.
--
-- The last keys are, of each such charge, its limit and its floor, and then the claim of the digest key; the last argument is the
-- fingerprint of the agent's. If another key holds the region, the quota of each is 0. The answer begins with 1 in this case, or else
-- 0, and the quota and the end of the granted units of each, or 0. If the counter follows newer rules than the charge, so does the charge, with this quota.
-- Units of another window than that of the ledger would be spent once more: a charge by another window than that of the floor has none.
-- It does not convert the counter to its window either, which would forget units that still count: it follows the counter.
local BUDGETED, NUMBER_MAX, RECORD_LEN, FENCE_LEN, in_force = 32, 2 ^ 53 - 1, 57, 40, ''
local claim, fingerprint, is_held, held_ms = table.remove(KEYS), table.remove(ARGV), true, 0
for i = #ARGV, 1, -1 do
  local charge = ARGV[i]
  local mode, _, _, width, quota, burst, generation = parse(CHARGE, charge)
  if math.floor(mode / BUDGETED) % 2 == 1 then
    local ends, records = 0, {}
    for place = 1, 2 do
      local key = table.remove(KEYS)
      local record = redis.pcall('GET', key)
      if type(record) == 'table' and not string.find(record.err, 'WRONGTYPE', 1, true) then return record end
      if record and (type(record) == 'table' or #record ~= RECORD_LEN and #record ~= RECORD_LEN + FENCE_LEN) then
        return { err = 'UNREADABLE ' .. key }
      end
      records[place] = record
    end
    -- The units of a lease are spent until their sub-window ends.
    if 2 * width > held_ms then
      held_ms = 2 * width
      is_held = holds_region(claim, fingerprint, held_ms)
    end
    local policy, value = string.sub(charge, 2, 9), redis.pcall('GETRANGE', KEYS[i], '0', HEADER_LEN - 1)
    local kind_then, width_then, burst_then, generation_then
    if type(value) == 'string' and #value >= HEADER_LEN then
      kind_then, _, width_then, _, burst_then, generation_then = parse(HEADER, value)
      if generation_then > generation then
        policy, width, burst, generation = string.sub(value, 1, 8), width_then, burst_then, generation_then
      end
    end
    local is_of_terms = true
    if records[1] then
      local units, _, _, _, of_terms = parse('<I7I7I7I7I7', records[1])
      quota, is_of_terms = units, of_terms == width
    end
    if records[2] then
      local units, term_ends, _, begins, of_grant = parse('<I7I7I7I7I7', records[2])
      if of_grant == width and begins <= now and now < term_ends then
        quota, ends = math.min(quota + units, NUMBER_MAX), term_ends
      end
    end
    if not is_of_terms and kind_then and kind_then < TOKEN_BUCKET and width_then ~= width then
      policy, burst, generation = string.sub(value, 1, 8), burst_then, generation_then
    end
    if not (is_held and is_of_terms) then quota, ends = 0, 0 end
    ARGV[i] = pack('<I1', mode - BUDGETED) .. policy .. pack('<I7I7I7', quota, burst, generation) .. string.sub(charge, 31)
    in_force = pack('<I7I7', quota, ends) .. in_force
  end
end
in_force = pack('<I1', is_held and 0 or 1) .. in_force
