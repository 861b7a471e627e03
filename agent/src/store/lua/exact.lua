-- units * part / width, rounded up: exactly where the product is too large for a number of a script.
make_exact = function()
  local floor = math.floor
  return function(units, part, width)
    local rest = units % width
    local high = rest * floor(part / 65536)
    local low = high % width * 65536 + rest * (part % 65536)
    return floor(units / width) * part + floor(high / width) * 65536 + math.ceil(low / width)
  end
end
