package resource

import (
	"slices"
	"strings"
	"testing"
)

const valuePath = local + "/x/value"

func TestValuesOfAnyBytes(t *testing.T) {
	each(t, func(f *fixture) {
		f.send(201, "POST "+local, `{"resources":[{"type":"kv","name":"x"}]}`)
		for query, want := range map[string]string{
			"key=a%2Fb%20%C3%BC":             `"value":"a/b ü"`,
			"key=%2F%2F4%3D&encoding=base64": `"value":{"base64":"//4="}`,
			"key=__4&encoding=base64":        `"value":{"base64":"//4="}`,
		} {
			if got := f.send(200, "GET "+valuePath+"?"+query, ""); !strings.Contains(got, want) {
				f.t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
		f.send(422, "GET "+valuePath, "")
		f.send(422, "GET "+valuePath+"?key=a&encoding=base64", "")
		f.send(422, "GET "+valuePath+"?key="+strings.Repeat("a", maxKey+1), "")
		f.send(422, "GET "+valuePath+"?key=a&cursor=x", "")
		f.send(404, "GET "+local+"/y/value?key=a", "")
	})
}

func TestChangesOfKeysAreAudited(t *testing.T) {
	each(t, func(f *fixture) {
		f.send(201, "POST "+local, `{"resources":[{"type":"kv","name":"x"}]}`)
		f.audit.Skip()
		key := valuePath + "?key=YQA&encoding=base64"
		f.send(200, "PUT "+key, `{"type":"string","item":{"value":{"base64":"//4="}},"ttl_ms":5}`)
		f.send(200, "PUT "+key, `{"ttl_ms":0}`)
		f.send(204, "DELETE "+key+"&item=MQ", "")
		f.send(204, "DELETE "+key, "")
		if want := []string{"kv.set", "kv.expire", "kv.set", "kv.unset"}; !slices.Equal(f.audit.Read("action"), want) {
			f.t.Errorf("audit log %v, want %v", f.audit.Read("action"), want)
		}
		f.kvs.set(func(string, *Provisioned) error { return ReplyError("WRONGTYPE other") })
		f.send(409, "PUT "+key, `{"type":"set","item":{"member":"a"}}`)
		f.kvs.set(func(string, *Provisioned) error { return ReplyError("OOM no memory") })
		f.send(503, "PUT "+key, `{"type":"set","item":{"member":"a"}}`)
		if len(f.audit.Read("action")) != 4 {
			f.t.Errorf("a change that was refused is in the audit log: %v", f.audit.Read("action"))
		}
	})
}

func TestNewValuesAreChecked(t *testing.T) {
	each(t, func(f *fixture) {
		f.send(201, "POST "+local, `{"resources":[{"type":"kv","name":"x"}]}`)
		for body, location := range map[string]string{
			`{}`:                          "body",
			`{"type":"string"}`:           "body.item",
			`{"item":{"value":"a"}}`:      "body.type",
			`{"type":"string","item":{}}`: "body.item.value",
			`{"type":"string","item":{"value":{"base64":"?"}}}`:                         "body.item.value",
			`{"type":"string","item":{"value":7}}`:                                      "body.item.value",
			`{"type":"hash","item":{"value":"a"}}`:                                      "body.item.field",
			`{"type":"list","item":{"index":0}}`:                                        "body.item.value",
			`{"type":"list","item":{"value":"a","index":-1}}`:                           "body.item.index",
			`{"type":"set","item":{"value":"a"}}`:                                       "body.item.member",
			`{"type":"zset","item":{"member":"a","score":"nan"}}`:                       "body.item.score",
			`{"type":"stream","item":{"fields":[]}}`:                                    "body.item.fields",
			`{"type":"stream","item":{"fields":[{"field":"a","value":{"base65":""}}]}}`: "body.item.fields[0].value",
			`{"ttl_ms":-1}`: "body.ttl_ms",
		} {
			if got := f.send(422, "PUT "+valuePath+"?key=a", body); !strings.Contains(got, `"location":"`+location+`"`) {
				f.t.Errorf("%s: %s, want a fault of %s", body, got, location)
			}
		}
		if len(f.audit.Read("action")) != 1 {
			f.t.Errorf("audit log %v", f.audit.Read("action"))
		}
	})
}
