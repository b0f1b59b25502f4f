package config

import (
	"strings"
	"testing"
)

func TestParseRegionEngines(t *testing.T) {
	const db, kv = "postgres://admin:secret@db:5432/postgres", "redis://:secret@kv:6379/0"
	const cluster = "redis+cluster://u:secret@a:1,b:2,c:3"
	for text, want := range map[string]RegionEngines{
		"db=" + db:                    {DB: Engine{PostgreSQL, db}},
		"kv=" + kv:                    {KV: Engine{Redis, kv}},
		"db=" + db + ",kv=" + kv:      {Engine{PostgreSQL, db}, Engine{Redis, kv}},
		"kv=" + cluster + ",db=" + db: {Engine{PostgreSQL, db}, Engine{Redis, cluster}},
	} {
		if got, err := ParseRegionEngines(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "x", "kv", "kv=", "kv=embedded", "db=none", "kv=" + db, "s3=embedded", "x,kv=" + kv, "kv=" + kv + ",kv=" + kv,
		"kv=" + kv + ",db=", "kv=redis://:secret%zz@kv",
	} {
		if got, err := ParseRegionEngines(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

func TestEnginesAreRedacted(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://admin:secret@db:5432/postgres?sslmode=require":                   "postgres://admin:xxxxx@db:5432/postgres?sslmode=require",
		"postgres://admin@db/postgres?password=secret":                               "postgres://admin@db/postgres?password=xxxxx",
		"redis+sentinel://u:secret@a:1,b:2/main?sentinel_password=secret&info=false": "redis+sentinel://u:xxxxx@a:1,b:2/main?info=false&sentinel_password=xxxxx",
	} {
		if got := (Engine{URL: Secret(text)}).Redacted(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := (Engine{Kind: Embedded}).Redacted(); got != "embedded" {
		t.Errorf("got %s", got)
	}
}
