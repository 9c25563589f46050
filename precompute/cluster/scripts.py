"""What changes a shard, as Lua scripts: each is one step of the protocol (docs/cluster.md), done as a whole.

    {s}m       hash: holder until rev floor final base alive born · last bytes cut read · seg sbytes ·
               lasting, what final was a minute ago; coming since, what it will be and the time of that ·
               w:<writer> = "seq ms" ·
               wanted: bytes of the largest entry that was refused for want of room, until there is room for it
    {s}log     stream, the sample log: `b` an entry of samples; or `h`, `a`, `u` a hole: metric, after, until
    {s}segs    hash: segment -> "<id of its first entry> <bytes written before it>"
    {s}holes   sorted set by until: "<after> <until> <metric>"
    {s}aggs    set: aggregations that have panes here
    {s}i:<a>   hash: pane end -> "<seen> <flags>"          {s}p:<a>   hash: pane end -> blob
    {s}told    stream, bounded: what was committed, stored and dropped, for whoever keeps a copy
    {s}bad     list, bounded: "<id> <entry>" of entries that could not be read

A server without memory left (maxmemory) refuses appends and new shards. What a worker does goes on, since it is
what frees memory: its scripts say so in their first line.

Times are milliseconds. ARGV[1] is always the time to judge by; empty for the server's own, which is what all roles use.
"""

from precompute.cluster.server import Script
from precompute.progress import MAX_HOLES

NOW = """
local function now_ms()
  if ARGV[1] ~= '' then return tonumber(ARGV[1]) end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function whole(n) return string.format('%.0f', n) end
local function entry_id()
  if ARGV[1] ~= '' then return ARGV[1] .. '-*' end
  return '*'
end
"""

WHATEVER_MEMORY = "#!lua flags=allow-oom\n"

_HELD = """
local function is_mine(m)  -- m: holder, until, rev
  return m[1] == ARGV[2] and m[3] == ARGV[3] and tonumber(m[2]) >= now
end
"""

_IN_LOG = """
local function in_log(key, id)  -- "0-0": before the first
  return id == '0-0' or #redis.call('XRANGE', key, id, id) == 1
end
"""

_TRIMMED = """
local function trimmed(latest, future, base, cut)  -- KEYS m log segs; the base and cut that follow
  local segs, first, first_ms = redis.call('HGETALL', KEYS[3]), '', -1
  for at = 1, #segs, 2 do
    local ms = tonumber(string.match(segs[at + 1], '^%d+'))
    if ms <= latest and ms > first_ms then first, first_ms = segs[at + 1], ms end
  end
  local id, before = string.match(first, '^(%S+) (%d+)$')
  if not id or tonumber(before) <= cut then return base, cut end
  redis.call('XTRIM', KEYS[2], 'MINID', id)
  for at = 1, #segs, 2 do
    if tonumber(string.match(segs[at + 1], '^%d+')) < first_ms then redis.call('HDEL', KEYS[3], segs[at]) end
  end
  local all = redis.call('HGETALL', KEYS[1])
  for at = 1, #all, 2 do
    local heard = string.sub(all[at], 1, 2) == 'w:' and tonumber(string.match(all[at + 1], '%d+$'))
    if heard and heard < first_ms then redis.call('HDEL', KEYS[1], all[at]) end
  end
  return math.max(base, first_ms + future), tonumber(before)
end
"""

_HOLES = """
local most_holes = MOST_HOLES
local function parsed(held)
  local after, till, metric = string.match(held, '^(%S+) (%S+) (.*)$')
  return {after = after, till = till, metric = metric}  -- as texts: a double does not hold every time
end
local function put_hole(key, hole)
  redis.call('ZADD', key, hole.till, hole.after .. ' ' .. hole.till .. ' ' .. hole.metric)
end
local function stretch(hole, other)
  if tonumber(other.after) < tonumber(hole.after) then hole.after = other.after end
  if tonumber(other.till) > tonumber(hole.till) then hole.till = other.till end
end
local function joined_over(holes, near)  -- of every metric, those no farther from each other than that made one
  local joined = {}
  for _, one in ipairs(holes) do
    local last = joined[#joined]
    if last and tonumber(one.after) - tonumber(last.till) <= near then
      stretch(last, one)
    else
      joined[#joined + 1] = {after = one.after, till = one.till, metric = ''}
    end
  end
  return joined
end
local function make_fewer(key)  -- half as many or fewer, which cover the same and more
  local holes, distances = {}, {}
  for at, held in ipairs(redis.call('ZRANGE', key, 0, -1)) do holes[at] = parsed(held) end
  table.sort(holes, function(one, other) return tonumber(one.after) < tonumber(other.after) end)
  local joined = joined_over(holes, 0)
  for at = 2, #joined do distances[at - 1] = tonumber(joined[at].after) - tonumber(joined[at - 1].till) end
  table.sort(distances)
  local over = #joined - math.floor(most_holes / 2)
  if over > 0 then joined = joined_over(joined, distances[over]) end
  redis.call('DEL', key)
  for _, hole in ipairs(joined) do put_hole(key, hole) end
end
local function join_hole(key, after, till, metric)  -- with those of the metric that it meets
  local hole = {after = after, till = till, metric = metric}
  for _, held in ipairs(redis.call('ZRANGEBYSCORE', key, after, '+inf')) do
    local other = parsed(held)
    if other.metric == metric and tonumber(other.after) <= tonumber(hole.till) then
      redis.call('ZREM', key, held)
      stretch(hole, other)
    end
  end
  put_hole(key, hole)
  if redis.call('ZCARD', key) > most_holes then make_fewer(key) end
end
""".replace("MOST_HOLES", str(MAX_HOLES))

CREATE = Script(
    NOW
    + """
-- KEYS m   ARGV now acceptance complete -> 1 if it was made
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local now = now_ms()
local floor = whole(now - tonumber(ARGV[2]))
local base = '0'
if ARGV[3] ~= '1' then base = whole(now) end
redis.call('HSET', KEYS[1], 'holder', '', 'until', '0', 'rev', '', 'floor', floor, 'final', floor, 'base', base,
  'born', floor, 'alive', whole(now), 'last', '0-0', 'bytes', '0', 'cut', '0', 'read', '0', 'seg', '0', 'sbytes', '0')
return 1
"""
)
"""A shard without metadata is a new one: nothing is claimed for the time before, unless `complete`."""

APPEND = Script(
    NOW
    + _HOLES
    + """
-- KEYS m log segs holes
-- ARGV now writer seq seg after until · future segment_ms lateness max_bytes max_backlog · samples · hole_metric
--   samples: an entry, its times in (after, until]; empty: none
--   hole_metric: '-' none; else '=metric', a hole (after, until]
local now = now_ms()
local m = redis.call('HMGET', KEYS[1], 'floor', 'alive', 'bytes', 'cut', 'read', 'seg', 'w:' .. ARGV[2], 'wanted')
if not m[1] then return {'missing'} end
local samples, hole = ARGV[12], ARGV[13]
local seq, size = tonumber(ARGV[3]), #samples
if samples ~= '' then
  local last = tonumber(string.match(m[7] or '0', '^%d+'))
  if seq <= last then return {'dup'} end
  local seg = math.max(tonumber(m[6]), math.floor(now / tonumber(ARGV[8])))
  if seq ~= last + 1 or tonumber(ARGV[4]) ~= seg then return {'restart', whole(seg)} end
  if tonumber(ARGV[5]) < tonumber(m[1]) then return {'old', m[1]} end
  if tonumber(ARGV[6]) > now + tonumber(ARGV[7]) then return {'future', whole(now + tonumber(ARGV[7]))} end
end
local bytes, wanted = tonumber(m[3]), tonumber(m[8] or '0')
local function lacking(more)
  if bytes - tonumber(m[4]) + more > tonumber(ARGV[10]) then return 'log.max_bytes' end
  if bytes - tonumber(m[5]) + more > tonumber(ARGV[11]) then return 'log.max_backlog' end
end
if lacking(size) then
  local most = math.min(size, tonumber(ARGV[10]), tonumber(ARGV[11]))
  redis.call('HSET', KEYS[1], 'wanted', whole(math.max(wanted, most)))
  return {'full', lacking(size)}
end
if lacking(wanted) then
  if samples == '' and hole == '-' then return {'full', lacking(wanted)} end
elseif wanted > 0 then
  redis.call('HDEL', KEYS[1], 'wanted')
  wanted = 0
end
local function add_hole(after, until_ms, metric)
  join_hole(KEYS[4], after, until_ms, metric)
  return redis.call('XADD', KEYS[2], entry_id(), 'h', metric, 'a', after, 'u', until_ms)
end
local alive, last_id = tonumber(m[2]), false
if wanted == 0 and now - alive > tonumber(ARGV[9]) then last_id = add_hole(whole(alive), whole(now), '') end
if hole ~= '-' then last_id = add_hole(ARGV[5], ARGV[6], string.sub(hole, 2)) end
if samples ~= '' then
  last_id = redis.call('XADD', KEYS[2], entry_id(), 'b', samples)
  redis.call('HSETNX', KEYS[3], ARGV[4], last_id .. ' ' .. whole(bytes))
  redis.call('HSET', KEYS[1], 'w:' .. ARGV[2], whole(seq) .. ' ' .. whole(now),
    'bytes', whole(bytes + size), 'seg', ARGV[4])
end
if last_id then redis.call('HSET', KEYS[1], 'last', last_id) end
if wanted == 0 then redis.call('HSET', KEYS[1], 'alive', whole(math.max(alive, now))) end
return {'ok', last_id or ''}
"""
)
"""Samples, a hole, or with neither a heartbeat. A silence longer than the lateness leaves a hole of its own.

While an entry that was refused would still be refused, nobody counts as listening: alive stays.
"""

BEGIN = Script(
    WHATEVER_MEMORY
    + NOW
    + _IN_LOG
    + """
-- KEYS m log   ARGV now holder rev new_rev lease · acceptance own_now applied
local now = now_ms()
local m = redis.call('HMGET', KEYS[1], 'holder', 'until', 'rev', 'floor')
if not m[4] then return {'missing'} end
if m[1] ~= '' and m[1] ~= ARGV[2] and tonumber(m[2]) >= now then return {'taken', m[1]} end
local rev, floor = ARGV[3], tonumber(m[4])
if m[1] ~= ARGV[2] or m[3] ~= rev or rev == '' or not in_log(KEYS[2], ARGV[8]) then rev = ARGV[4] end
local own = tonumber(ARGV[7])
if math.abs(own - now) <= 5000 then
  floor = math.max(floor, math.min(now, own) - tonumber(ARGV[6]))
end
redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'until', whole(now + tonumber(ARGV[5])), 'rev', rev,
  'floor', whole(floor))
return {'ok', rev}
"""
)
"""Take or renew the lease, and raise the floor. A new rev in the answer: another held it, it was never warm, or the
log has lost `applied`, the newest entry that was read."""

COMMIT = Script(
    WHATEVER_MEMORY
    + NOW
    + _IN_LOG
    + """
-- KEYS m told aggs i p log   ARGV now holder rev new_rev lease · aggregation seen id · (end flags blob)…
local now = now_ms()
local m = redis.call('HMGET', KEYS[1], 'holder', 'until', 'rev', 'sbytes')
if m[3] == ARGV[4] then return 'done' end
"""
    + _HELD
    + """
if not is_mine(m) or not in_log(KEYS[6], ARGV[8]) then return 'lost' end
local sbytes, ends, flags = tonumber(m[4]), {}, {}
for at = 9, #ARGV, 3 do
  sbytes = sbytes - redis.call('HSTRLEN', KEYS[5], ARGV[at]) + #ARGV[at + 2]
  redis.call('HSET', KEYS[5], ARGV[at], ARGV[at + 2])
  redis.call('HSET', KEYS[4], ARGV[at], ARGV[7] .. ' ' .. ARGV[at + 1])
  ends[#ends + 1], flags[#flags + 1] = ARGV[at], ARGV[at + 1]
end
redis.call('SADD', KEYS[3], ARGV[6])
redis.call('HSET', KEYS[1], 'rev', ARGV[4], 'until', whole(now + tonumber(ARGV[5])), 'sbytes', whole(sbytes))
redis.call('XADD', KEYS[2], 'MAXLEN', '~', '20000', '*', 'o', 'commit', 'a', ARGV[6], 's', ARGV[7],
  'e', table.concat(ends, ' '), 'f', table.concat(flags, ' '))
return 'ok'
"""
)
"""Panes of one aggregation, each in place of what was there; none that have seen what the log has lost."""

END = Script(
    WHATEVER_MEMORY
    + NOW
    + _TRIMMED
    + """
-- KEYS m log segs holes   ARGV now holder rev · clean_to keep future read segment_ms release holes_before
local now = now_ms()
local m = redis.call('HMGET', KEYS[1], 'holder', 'until', 'rev', 'floor', 'final', 'base', 'cut', 'coming', 'since')
"""
    + _HELD
    + """
if not is_mine(m) then return {'lost'} end
local final, base, cut = tonumber(m[5]), tonumber(m[6]), tonumber(m[7])
if ARGV[4] ~= '' then
  if tonumber(ARGV[4]) > tonumber(m[4]) then return {'lost'} end
  final = math.max(final, tonumber(ARGV[4]))
end
base, cut = trimmed(final - tonumber(ARGV[5]) - tonumber(ARGV[6]), tonumber(ARGV[6]), base, cut)
if ARGV[10] ~= '' then redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', ARGV[10]) end
redis.call('HSET', KEYS[1], 'final', whole(final), 'base', whole(base), 'cut', whole(cut), 'read', ARGV[7])
if now - tonumber(m[9] or '0') >= 60000 then
  redis.call('HSET', KEYS[1], 'lasting', m[8] or '0', 'coming', whole(final), 'since', whole(now))
end
if ARGV[9] == '1' then redis.call('HSET', KEYS[1], 'holder', '', 'until', '0') end
return {'ok', whole(final), whole(base)}
"""
)
"""Note how far all is final and read, trim the log by whole segments, and give the lease back if asked to.

A server that loses its last seconds falls back to an older floor and an older final, and takes samples again that were
too old. `lasting` is what no such loss of less than a minute goes behind: what leaves for the long-term store is older.
"""

PUT_ASIDE = Script(
    WHATEVER_MEMORY
    + _HOLES
    + """
-- KEYS bad holes   ARGV most kept after until   kept: the id of an entry and its bytes
redis.call('LREM', KEYS[1], 0, ARGV[2])
redis.call('LPUSH', KEYS[1], ARGV[2])
redis.call('LTRIM', KEYS[1], 0, ARGV[1] - 1)
join_hole(KEYS[2], ARGV[3], ARGV[4], '')
"""
)
"""An entry that cannot be read is kept, and where it may have had samples is a hole; both once, however often it is
read. Alive stays: no sender has said a word."""

TRIM = Script(
    WHATEVER_MEMORY
    + NOW
    + _TRIMMED
    + """
-- KEYS m log segs   ARGV now before future
local m = redis.call('HMGET', KEYS[1], 'base', 'cut')
local future = tonumber(ARGV[3])
local base, cut = trimmed(tonumber(ARGV[2]) - future, future, tonumber(m[1]), tonumber(m[2]))
redis.call('HSET', KEYS[1], 'base', whole(base), 'cut', whole(cut))
"""
)
"""The log without the whole segments that hold nothing newer than a time."""

FORGET = Script(
    WHATEVER_MEMORY
    + """
-- KEYS m told aggs i p   ARGV aggregation operation end…   operation: stored or dropped
local freed = 0
for at = 3, #ARGV do
  freed = freed + redis.call('HSTRLEN', KEYS[5], ARGV[at])
  redis.call('HDEL', KEYS[5], ARGV[at])
  redis.call('HDEL', KEYS[4], ARGV[at])
end
if redis.call('EXISTS', KEYS[4]) == 0 then redis.call('SREM', KEYS[3], ARGV[1]) end
if freed > 0 then redis.call('HINCRBY', KEYS[1], 'sbytes', -freed) end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', '20000', '*', 'o', ARGV[2], 'a', ARGV[1],
  'e', table.concat(ARGV, ' ', 3))
return freed
"""
)
"""Panes that the long-term store has, or that are not kept any more, leave Redis."""

PUBLISH = Script(
    """
-- KEYS plan   ARGV content -> revision
if redis.call('HGET', KEYS[1], 'content') == ARGV[1] then return tonumber(redis.call('HGET', KEYS[1], 'revision')) end
local t = redis.call('TIME')
local revision = math.max(t[1] * 1000000 + t[2], tonumber(redis.call('HGET', KEYS[1], 'revision') or '0') + 1)
redis.call('HSET', KEYS[1], 'content', ARGV[1], 'revision', string.format('%.0f', revision))
return revision
"""
)
"""The plan in force, for all roles. A revision that was lost with the server's last second is not used again."""
