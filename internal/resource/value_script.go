package resource

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"steward/internal/errs"
	"steward/internal/id"
)

// Script is a Redis script for one key in a store.
type Script struct {
	Text, Key string
	Args      []string
}

// ReplyError is a store's error reply, in Redis's words.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// pageBytes caps a page, itemBytes each text in it, and stringBytes a page of a string. The page limit is
// approximate.
const (
	pageBytes   = 1 << 20
	itemBytes   = 16 << 10
	stringBytes = 256 << 10
)

// readScript replies with the key's type, the milliseconds until it expires, its size, the next page's
// cursor, and a page of items. Each item begins with 1 if it was cut. A script reads all this in one
// step, and cuts long texts before they are sent. It reads a few elements at a time, since they may be
// large. ARGV: cursor, limit, and the limits for a page, an item and a string in bytes.
const readScript = `
local key, cursor, limit = KEYS[1], ARGV[1], tonumber(ARGV[2])
local room, itemBytes, stringBytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local step = 10
local kind = redis.call('TYPE', key).ok
if kind == 'none' then return {kind} end
local ttl = redis.call('PTTL', key)
local items = {}

local function add(texts)
  local item = {0}
  for i, text in ipairs(texts) do
    if i > 2 and i % 2 == 0 and room <= 0 then
      item[1] = 1
      break
    end
    if #text > itemBytes then item[1] = 1 end
    item[i + 1] = string.sub(text, 1, itemBytes)
    room = room - #item[i + 1]
  end
  items[#items + 1] = item
end
local function full() return #items >= limit or room <= 0 end

if kind == 'string' then
  local from = tonumber(cursor) or 0
  return {kind, ttl, redis.call('STRLEN', key), '', redis.call('GETRANGE', key, from, from + stringBytes - 1)}
elseif kind == 'list' then
  local size, at = redis.call('LLEN', key), tonumber(cursor) or 0
  while at < size and not full() do
    for _, text in ipairs(redis.call('LRANGE', key, at, at + step - 1)) do
      if full() then break end
      add({text})
      at = at + 1
    end
  end
  return {kind, ttl, size, at < size and tostring(at) or '', items}
elseif kind == 'zset' then
  local size, at = redis.call('ZCARD', key), tonumber(cursor) or 0
  while at < size and not full() do
    local part = redis.call('ZRANGE', key, at, at + step - 1, 'WITHSCORES')
    for i = 1, #part, 2 do
      if full() then break end
      add({part[i], part[i + 1]})
      at = at + 1
    end
  end
  return {kind, ttl, size, at < size and tostring(at) or '', items}
elseif kind == 'hash' or kind == 'set' then
  local length, scan, width = 'SCARD', 'SSCAN', 1
  if kind == 'hash' then length, scan, width = 'HLEN', 'HSCAN', 2 end
  local size = redis.call(length, key)
  local at, skip = string.match(cursor, '^(%d+)%-?(%d*)$')
  at, skip = at or '0', tonumber(skip) or 0
  for _ = 1, 1000 do
    local found = redis.call(scan, key, at, 'COUNT', step)
    local part = found[2]
    for i = skip * width + 1, #part, width do
      if full() then return {kind, ttl, size, at .. '-' .. skip, items} end
      add({unpack(part, i, i + width - 1)})
      skip = skip + 1
    end
    at, skip = found[1], 0
    if at == '0' or full() then break end
  end
  return {kind, ttl, size, at ~= '0' and at or '', items}
elseif kind == 'stream' then
  local size, last, more = redis.call('XLEN', key), cursor, true
  while more and not full() do
    local part = redis.call('XRANGE', key, last == '' and '-' or '(' .. last, '+', 'COUNT', step)
    more = #part == step
    for _, entry in ipairs(part) do
      if full() then
        more = true
        break
      end
      table.insert(entry[2], 1, entry[1])
      add(entry[2])
      last = entry[1]
    end
  end
  return {kind, ttl, size, more and last or '', items}
end
return {kind, ttl, 0, '', items}
`

// writeScript runs a command and sets when its key expires. It replies with the key's type, the
// milliseconds until it expires, its size, and the command's reply. ARGV: the milliseconds ("" leaves
// them, 0 means never), and the command without its key.
const writeScript = `
local key, ttl, command = KEYS[1], ARGV[1], ARGV[2]
local reply = ''
if command then
  reply = redis.pcall(command, key, unpack(ARGV, 3))
  if type(reply) == 'table' then
    if reply.err then return reply end
    reply = reply.ok
  end
end
local kind = redis.call('TYPE', key).ok
if kind == 'none' then return {kind} end
if ttl == '0' then
  redis.call('PERSIST', key)
elseif ttl ~= '' then
  redis.call('PEXPIRE', key, ttl)
end
local lengths = {string = 'STRLEN', hash = 'HLEN', list = 'LLEN', set = 'SCARD', zset = 'ZCARD', stream = 'XLEN'}
local size = lengths[kind] and redis.call(lengths[kind], key) or 0
return {kind, redis.call('PTTL', key), size, reply}
`

// removeScript removes a key, or one item in it, and replies with the number removed. ARGV: nothing for
// the key; otherwise the item, and a text that no list element has. A list's element is first overwritten
// with that text, because Redis cannot remove by index.
const removeScript = `
local key, item = KEYS[1], ARGV[1]
if not item then return redis.call('UNLINK', key) end
local kind = redis.call('TYPE', key).ok
local commands = {hash = 'HDEL', set = 'SREM', zset = 'ZREM', stream = 'XDEL'}
if commands[kind] then return redis.pcall(commands[kind], key, item) end
if kind == 'none' then return 0 end
if kind ~= 'list' then return redis.error_reply('ERR a string has no items') end
local element = redis.pcall('LINDEX', key, item)
if type(element) ~= 'string' then return element or 0 end
redis.call('LSET', key, item, ARGV[2])
return redis.call('LREM', key, 0, ARGV[2])
`

// errReply reports a reply that our scripts never send.
var errReply = errors.New("unexpected reply of a key-value store")

// ValueQuery selects a page of a key's value.
type ValueQuery struct {
	Key string
	// Cursor is the previous page's Next; empty for the first page.
	Cursor string
	Limit  int
}

// ReadValue returns a page of a key's value, or NotFound.
func ReadValue(ctx context.Context, e Stores, p *Provisioned, q ValueQuery) (Value, error) {
	if strings.Trim(q.Cursor, "0123456789-") != "" {
		return Value{}, errs.InvalidField("query.cursor", "must be the next of another page")
	}
	reply, err := e.Eval(ctx, p, Script{readScript, q.Key, []string{
		q.Cursor, strconv.Itoa(q.Limit), strconv.Itoa(pageBytes), strconv.Itoa(itemBytes), strconv.Itoa(stringBytes),
	}})
	if err != nil {
		return Value{}, refusal(err, "query.cursor")
	}
	v, rest, err := valueOf(reply)
	if err != nil {
		return Value{}, err
	}
	if len(rest) != 2 {
		return Value{}, errReply
	}
	v.Next, _ = rest[0].(string)
	if text, ok := rest[1].(string); ok {
		v.setString(text, q.Cursor)
		return v, nil
	}
	return v, v.setItems(rest[1], q.Cursor)
}

// SetValue changes a value, or when its key expires. It returns the value without its contents, except
// for the id of an entry added to a stream. It returns NotFound if there is no key to expire.
func SetValue(ctx context.Context, e Stores, p *Provisioned, key string, n NewValue) (Value, error) {
	args := []string{n.ttl()}
	if n.Item != nil {
		args = append(args, n.command()...)
	}
	reply, err := e.Eval(ctx, p, Script{writeScript, key, args})
	if err != nil {
		return Value{}, refusal(err, "body.item")
	}
	v, rest, err := valueOf(reply)
	if err != nil {
		return v, err
	}
	if n.Type == "stream" && len(rest) == 1 {
		added, _ := rest[0].(string)
		v.Items = append(v.Items, Item{ID: added})
	}
	return v, nil
}

// RemoveValue removes a key, or one item if item is not nil. It returns NotFound if there is none.
func RemoveValue(ctx context.Context, e Stores, p *Provisioned, key string, item *string) error {
	var args []string
	if item != nil {
		args = []string{*item, id.Secret(43)}
	}
	reply, err := e.Eval(ctx, p, Script{removeScript, key, args})
	if err != nil {
		return refusal(err, "query.item")
	}
	if n, _ := reply.(int64); n == 0 {
		return errs.New(errs.NotFound, "key or item not found")
	}
	return nil
}

// refusal translates a store's error reply into a request's error.
func refusal(err error, location string) error {
	var reply ReplyError
	if !errors.As(err, &reply) {
		return err
	}
	code, text, _ := strings.Cut(string(reply), " ")
	switch code {
	case "WRONGTYPE":
		return errs.New(errs.Conflict, "the key has a value of another type")
	case "ERR":
		return errs.InvalidField(location, "the store replied: %s", text)
	}
	return errs.Unavailablef(err, "the key-value store cannot do this now: %s", text)
}

// valueOf splits a reply into the key's description and the rest.
func valueOf(reply any) (Value, []any, error) {
	v := Value{Items: []Item{}}
	all, ok := reply.([]any)
	if !ok || len(all) == 0 {
		return v, nil, errReply
	}
	v.Type, _ = all[0].(string)
	if v.Type == "none" {
		return v, nil, errs.New(errs.NotFound, "key not found")
	}
	if len(all) < 3 {
		return v, nil, errReply
	}
	if ttl, _ := all[1].(int64); ttl >= 0 {
		v.TTL = &ttl
	}
	v.Size, _ = all[2].(int64)
	return v, all[3:], nil
}

// setString sets a part of a string that begins at the cursor's position.
func (v *Value) setString(text, cursor string) {
	from, _ := strconv.ParseInt(cursor, 10, 64)
	if from+int64(len(text)) < v.Size {
		if cut := len(text) - partialRune([]byte(text)); cut > 0 {
			text = text[:cut]
		}
		v.Next = strconv.FormatInt(from+int64(len(text)), 10)
	}
	v.Value = TextOf(text)
}

// setItems sets the items from a reply, which begin at the cursor's position.
func (v *Value) setItems(reply any, cursor string) error {
	all, _ := reply.([]any)
	from, _ := strconv.ParseInt(cursor, 10, 64)
	for n, one := range all {
		texts, cut, err := textsOf(one)
		if err != nil {
			return err
		}
		item, ok := itemOf(v.Type, texts)
		if !ok {
			return errReply
		}
		if v.Type == "list" {
			index := from + int64(n)
			item.Index = &index
		}
		item.Truncated = cut
		v.Items = append(v.Items, item)
	}
	return nil
}

// textsOf returns an item's texts. cut reports whether some of them were cut.
func textsOf(reply any) (texts []string, cut bool, err error) {
	all, _ := reply.([]any)
	if len(all) < 2 {
		return nil, false, errReply
	}
	cut = all[0] == int64(1)
	for _, one := range all[1:] {
		text, ok := one.(string)
		if !ok {
			return nil, false, fmt.Errorf("%w: %T", errReply, one)
		}
		if cut && len(text) == itemBytes {
			text = text[:len(text)-partialRune([]byte(text))]
		}
		texts = append(texts, text)
	}
	return texts, cut, nil
}

// itemOf returns an item. It reports whether the texts fit the type.
func itemOf(kind string, texts []string) (Item, bool) {
	switch {
	case kind == "hash" && len(texts) == 2:
		return Item{Field: TextOf(texts[0]), Value: TextOf(texts[1])}, true
	case kind == "list":
		return Item{Value: TextOf(texts[0])}, true
	case kind == "set":
		return Item{Member: TextOf(texts[0])}, true
	case kind == "zset" && len(texts) == 2:
		return Item{Member: TextOf(texts[0]), Score: texts[1]}, true
	case kind != "stream":
		return Item{}, false
	}
	item := Item{ID: texts[0]}
	for i := 1; i+1 < len(texts); i += 2 {
		item.Fields = append(item.Fields, StreamField{Text{text: texts[i]}, Text{text: texts[i+1]}})
	}
	return item, true
}
