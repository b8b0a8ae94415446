package consumer

import "github.com/valkey-io/valkey-go"

// scripts are the steps that must happen in one on the server. Each touches one stream, and keys of its hash slot.
type scripts struct {
	door, hold, bury, expel, count, next, keepName, dropName *valkey.Lua
}

func newScripts() *scripts {
	return &scripts{
		door: valkey.NewLuaScript(doorScript), hold: valkey.NewLuaScript(holdScript), bury: valkey.NewLuaScript(buryScript),
		expel: valkey.NewLuaScript(expelScript), count: valkey.NewLuaScriptReadOnly(countScript),
		next:     valkey.NewLuaScriptReadOnly(nextScript),
		keepName: valkey.NewLuaScript(keepNameScript), dropName: valkey.NewLuaScript(dropNameScript),
	}
}

// doorScript creates the group, and the stream where there is none. ENTRIESREAD makes lag and loss known from the start.
// KEYS stream; ARGV group, "0" or "$". 1: created, 0: was there.
const doorScript = `
local read = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  local has = {}
  for i = 1, #info, 2 do has[info[i]] = info[i + 1] end
  read = has['entries-added']
  if ARGV[2] == '0' then read = read - has['length'] end
end
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], ARGV[2], 'MKSTREAM', 'ENTRIESREAD', read)
if made['err'] == nil then return 1 end
if string.sub(made['err'], 1, 9) == 'BUSYGROUP' then return 0 end
return made
`

// What holdScript says of an entry.
const (
	holdLost    = 0 // another consumer owns it, or it was settled
	holdDone    = 1
	holdTrimmed = 2 // its body is gone, and with it the pending row
)

// holdScript sets the idle time, and the delivery count unless it is "", of entries that the consumer still owns. Idle 0
// renews a lease, min-idle hands an entry back, something between delays it.
// KEYS stream; ARGV group, consumer, then id, idle ms, count of each entry. A code for each.
const holdScript = `
local codes = {}
for i = 3, #ARGV, 3 do
  local id = ARGV[i]
  local row = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  local code = 0
  if not row then
    if #redis.call('XRANGE', KEYS[1], id, id) == 0 then code = 2 end
  elseif row[2] == ARGV[2] then
    local got
    if ARGV[i + 2] == '' then
      got = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'IDLE', ARGV[i + 1], 'JUSTID')
    else
      got = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'IDLE', ARGV[i + 1], 'RETRYCOUNT', ARGV[i + 2], 'JUSTID')
    end
    code = #got == 0 and 2 or 1
  end
  codes[#codes + 1] = code
end
return codes
`

// What buryScript says.
const (
	buryLost    = 0
	buryDone    = 1
	buryTrimmed = 2
	buryTooFew  = 3 // delivered less often than asked for
)

// buryScript moves an entry that the consumer still owns to the dead-letter stream and settles it. Above 1000 fields
// they are packed into one value: unpack has a limit near 4000 fields. Of a retried dead letter, whose stream and entry
// are given, the attempts add up, the past stays, and the fields are without their prefix again.
// KEYS stream, dead-letter stream; ARGV group, consumer, id, least attempts, cap, reason, stream and entry that the dead
// letter is of: entry is "" unless it was retried.
const buryScript = `
local id = ARGV[3]
local row = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
if not row or row[2] ~= ARGV[2] then return 0 end
if row[4] < tonumber(ARGV[4]) then return 3 end
local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
if not entry then
  redis.call('XACK', KEYS[1], ARGV[1], id)
  return 2
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local retried, fields, past, attempts = ARGV[8] ~= '', entry[2], {}, row[4]
if retried then
  local had
  fields = {}
  for i = 1, #entry[2], 2 do
    local name, value = entry[2][i], entry[2][i + 1]
    if string.sub(name, 1, 2) == 'f:' then
      fields[#fields + 1] = string.sub(name, 3)
      fields[#fields + 1] = value
    elseif name == 'dead.past' and #past < 100 then
      past[#past + 1] = value
    elseif name == 'dead.attempts' and not had then
      had = tonumber(value)
    end
  end
  attempts = attempts + (had or 0)
end
local out = {
  'dead.stream', ARGV[7], 'dead.entry', retried and ARGV[8] or id, 'dead.group', ARGV[1], 'dead.consumer', ARGV[2],
  'dead.attempts', string.format('%.0f', attempts), 'dead.reason', ARGV[6],
  'dead.delivered', string.format('%.0f', now - row[3]), 'dead.at', string.format('%.0f', now),
}
for i = 1, #past do
  out[#out + 1] = 'dead.past'
  out[#out + 1] = past[i]
end
if #fields > 2000 then
  local packed = {}
  for i = 1, #fields do packed[i] = #fields[i] .. ':' .. fields[i] end
  out[#out + 1] = 'dead.packed'
  out[#out + 1] = table.concat(packed)
else
  for i = 1, #fields, 2 do
    out[#out + 1] = 'f:' .. fields[i]
    out[#out + 1] = fields[i + 1]
  end
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', unpack(out))
redis.call('XACK', KEYS[1], ARGV[1], id)
return 1
`

// expelScript removes a consumer from the group that owns nothing and has been silent: XGROUP DELCONSUMER throws pending
// rows away, so it must not be sent without this check.
// KEYS stream; ARGV group, consumer, least idle ms. 1: removed.
const expelScript = `
for _, row in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local has = {}
  for i = 1, #row, 2 do has[row[i]] = row[i + 1] end
  if has['name'] == ARGV[2] and has['pending'] == 0 and has['idle'] >= tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
    return 1
  end
end
return 0
`

// countScript counts entries without sending them. KEYS stream; ARGV start, most.
const countScript = `return #redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])`

// nextScript is the id of the first entry from a start on, "" if there is none, without its fields. KEYS stream; ARGV start.
const nextScript = `
local entry = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', 1)[1]
return entry and entry[1] or ''
`

// keepNameScript takes a free name or renews one's own. KEYS lease; ARGV token, TTL ms. 1: it is ours.
const keepNameScript = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`

// dropNameScript gives one's own name up. KEYS lease; ARGV token.
const dropNameScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`
