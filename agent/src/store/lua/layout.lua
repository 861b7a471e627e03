-- The layout of charges, values and answers, and the numbers of the scripts that charge counters.
--
-- A charge: mode | kind | n | W | quota | burst | generation | cost | time, then of a lease the maximum of its units | the number
-- of agents, or of a call in several slots a token | the expiry of the call.
-- A value: kind | n | W | quota | burst | generation | born | last | bytes a count, then the state. `born` is
-- the instant of the first step, by which an agent sees that a value was lost; 0 once the value was re-based.
--   of windows: [spent part of the burst's reserve |] counts, newest first, trailing zeros left out or not; the newest is that of
--     the sub-window of `last`;
--   of buckets: the last charge | the level as of then;
--   of logs: how many entries have left | how many there are | the low 32 bits of each, oldest first.
-- An answer: outcome | now, then for each charge: flags | length | the value as it was read.
local CHARGE, HEADER, HEADER_LEN, LAST_PLACE = '<I1I1I1I6I7I7I7I7I7', '<I1I1I6I7I7I7I6I6I1', 42, '35'
local INTERPOLATED, CONSERVATIVE, FIXED, TOKEN_BUCKET, LOG, SLOTS = 49, 50, 51, 54, 56, 57
local EXPIRED, REFUSED, CHARGED, STALE, LEFT = 0, 1, 2, 3, 4
local LEASE, LEASE_PLACE = 7, 45
-- A TTL is at most a hundred years: a huge burst may take longer to refill than Redis accepts as a TTL.
local COUNT_MAX, CLOCK_ERROR_MAX_MS, TTL_MS_MAX = 2 ^ 53, 1000, 3155760000000
local pack, parse, rep = struct.pack, struct.unpack, string.rep
