-- The store's time in ms: the one place a step takes it from.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
