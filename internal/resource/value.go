package resource

import (
	"math"
	"strconv"

	"steward/internal/errs"
)

// Value is a page of a key's value.
type Value struct {
	_ struct{} `goName:"StoreValue"`

	Type string `json:"type" doc:"Type of the value as Redis names it" example:"hash"`
	// TTL is in milliseconds.
	TTL   *int64 `json:"ttl_ms,omitempty" doc:"Milliseconds until the key expires; absent if it does not" example:"60000"`
	Size  int64  `json:"size" doc:"Number of bytes of a string, or of items of another type" example:"31"`
	Value *Text  `json:"value,omitempty" doc:"A part of a string, at most 256 KiB: text, or {\"base64\": …} if it is not UTF-8"`
	Items []Item `json:"items" doc:"Items of a hash, list, set, sorted set or stream. Lists, sorted sets and streams are in their order"`
	Next  string `json:"next,omitempty" doc:"Cursor of the next page; absent on the last one" example:"100"`
}

// Item is an item in a value: a hash's field, a list's element, a set's or sorted set's member, or a
// stream's entry.
type Item struct {
	_ struct{} `goName:"StoreItem"`

	Field     *Text         `json:"field,omitempty" doc:"Field of a hash"`
	Index     *int64        `json:"index,omitempty" minimum:"0" doc:"Position of an element of a list, from 0. One that is set without is appended, with each request" example:"0"`
	Member    *Text         `json:"member,omitempty" doc:"Member of a set or sorted set"`
	Score     string        `json:"score,omitempty" maxLength:"64" doc:"Score of a member of a sorted set: a number, inf or -inf" example:"1.5"`
	ID        string        `json:"id,omitempty" maxLength:"64" doc:"Id of an entry of a stream. One that is added without gets the next one, with each request" example:"1763193000123-0"`
	Value     *Text         `json:"value,omitempty" doc:"A string, the value of a field of a hash, or an element of a list"`
	Fields    []StreamField `json:"fields,omitempty" maxItems:"1000" doc:"Fields of an entry of a stream, in their order"`
	Truncated bool          `json:"truncated,omitempty" doc:"Whether a text of the item is longer than shown, which is 16 KiB; ignored in requests"`
}

// StreamField is a field in a stream's entry.
type StreamField struct {
	Field Text `json:"field"`
	Value Text `json:"value"`
}

// NewValue changes a value, the time until its key expires, or both.
type NewValue struct {
	Type string `json:"type,omitempty" enum:"string,hash,list,set,zset,stream" doc:"Type of the value; required with item"`
	Item *Item  `json:"item,omitempty" doc:"What is set: a string, a field of a hash, an element of a list, a member of a set or sorted set, or an entry that is added to a stream"`
	// TTL is in milliseconds.
	TTL *int64 `json:"ttl_ms,omitempty" minimum:"0" maximum:"3153600000000" doc:"Milliseconds until the key expires; 0 has it not expire, and if it is missing nothing changes" example:"60000"`
}

// Check implements web.Checked.
func (n NewValue) Check(faults *errs.Faults) {
	if n.Item == nil {
		faults.Check(n.Type == "", "body.item", "expected a value; it is required with a type")
		faults.Check(n.Type != "" || n.TTL != nil, "body", "expected item or ttl_ms")
		return
	}
	n.Item.checkTexts(faults)
	i := n.Item
	need := func(ok bool, field string) {
		faults.Check(ok, "body.item."+field, "expected a value; it is required for this type")
	}
	switch n.Type {
	case "string", "list":
		need(i.Value != nil, "value")
	case "hash":
		need(i.Field != nil, "field")
		need(i.Value != nil, "value")
	case "set":
		need(i.Member != nil, "member")
	case "zset":
		need(i.Member != nil, "member")
		faults.Check(isScore(i.Score), "body.item.score", "expected a number, inf or -inf")
	case "stream":
		need(len(i.Fields) > 0, "fields")
	default:
		faults.Add("body.type", "expected a value; it is required with an item")
	}
}

// checkTexts adds a fault for each text that could not be decoded.
func (i *Item) checkTexts(faults *errs.Faults) {
	check := func(t *Text, field string) {
		faults.Check(t == nil || t.err == nil, "body.item."+field, "%s", errText)
	}
	check(i.Field, "field")
	check(i.Member, "member")
	check(i.Value, "value")
	for n := range i.Fields {
		at := "fields[" + strconv.Itoa(n) + "]."
		check(&i.Fields[n].Field, at+"field")
		check(&i.Fields[n].Value, at+"value")
	}
}

func isScore(text string) bool {
	score, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsNaN(score)
}

// command returns the Redis command that sets the item, without the key.
func (n NewValue) command() []string {
	i := n.Item
	switch n.Type {
	case "string":
		return []string{"SET", i.Value.String(), "KEEPTTL"}
	case "hash":
		return []string{"HSET", i.Field.String(), i.Value.String()}
	case "list":
		if i.Index == nil {
			return []string{"RPUSH", i.Value.String()}
		}
		return []string{"LSET", strconv.FormatInt(*i.Index, 10), i.Value.String()}
	case "set":
		return []string{"SADD", i.Member.String()}
	case "zset":
		return []string{"ZADD", i.Score, i.Member.String()}
	}
	id := i.ID
	if id == "" {
		id = "*"
	}
	command := []string{"XADD", id}
	for _, f := range i.Fields {
		command = append(command, f.Field.text, f.Value.text)
	}
	return command
}

// ttl returns a script's argument for the time until the key expires: "" leaves it, and 0 removes it.
func (n NewValue) ttl() string {
	if n.TTL == nil {
		return ""
	}
	return strconv.FormatInt(*n.TTL, 10)
}
