-- Returns true if this digest key holds the region. Counters of another key have other names, under which a caller would spend the
-- budget of the region once more. The first key holds the region until it was not used for `held_ms` at least.
-- The value: fingerprint of the key | end. A foreign value is overwritten.
local function holds_region(name, fingerprint, held_ms)
  local found, ends = redis.pcall('GET', name), 0
  if type(found) == 'string' and #found == 15 then
    ends = struct.unpack('<I7', found, 9)
    if string.sub(found, 1, 8) ~= fingerprint then return false end
  end
  if ends < now + held_ms then
    local kept_ms = math.min(1.5 * held_ms, 3155760000000)
    local value = fingerprint .. struct.pack('<I7', now + kept_ms)
    redis.call('SET', name, value, 'PX', string.format('%.0f', kept_ms))
  end
  return true
end
