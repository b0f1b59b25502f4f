package db

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Concern is a problem with a PostgreSQL server that makes Steward slow, or less safe than it
// promises.
type Concern struct {
	Problem string
	Advice  string
}

// minVersion is the oldest supported PostgreSQL, written like server_version_num.
const minVersion = 150000

// hasEveryText reports whether a database with an encoding can store every text. SQL_ASCII takes it
// as it is.
func hasEveryText(encoding string) bool { return encoding == "UTF8" || encoding == "SQL_ASCII" }

// serverSettings has the settings that apply to our transactions: a role, a database or a pooler may
// override the server's.
type serverSettings struct {
	version           int64
	jit               string
	synchronousCommit string
	standbys          string // a commit waits for these
	fsync             string
	fullPageWrites    string
	planner           string // disabled planner methods
	encoding          string // the database's
	connections       int64  // how many this role may open
	replicas          int64  // alive, with a row
}

const readServer = `SELECT CAST(current_setting('server_version_num') AS BIGINT), current_setting('jit'),
	current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), current_setting('fsync'),
	current_setting('full_page_writes'),
	COALESCE((SELECT string_agg(name, ', ' ORDER BY name) FROM pg_settings
		WHERE name LIKE 'enable\_%' AND boot_val = 'on' AND setting = 'off'), ''),
	current_setting('server_encoding'),
	LEAST(CAST(current_setting('max_connections') AS BIGINT) - CAST(current_setting('superuser_reserved_connections') AS BIGINT),
		(SELECT NULLIF(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user),
		(SELECT NULLIF(datconnlimit, -1) FROM pg_database WHERE datname = current_database()))`

func (s *serverSettings) fields() []any {
	return []any{
		&s.version, &s.jit, &s.synchronousCommit, &s.standbys, &s.fsync, &s.fullPageWrites, &s.planner, &s.encoding, &s.connections,
	}
}

// aliveFor limits how long a process counts as alive after it was last seen.
const aliveFor = 30 * time.Second

const countProcesses = `SELECT count(*) FROM processes WHERE seen_at > $1`

// concerns lists the settings that an operator should change.
func (s serverSettings) concerns(o Options) []Concern {
	var all []Concern
	add := func(bad bool, advice, format string, args ...any) {
		if bad {
			all = append(all, Concern{Problem: fmt.Sprintf(format, args...), Advice: advice})
		}
	}
	add(s.version < minVersion, "upgrade it", "PostgreSQL has version %d; 15 is the oldest that is supported", s.version/10000)
	add(s.fsync == "off", "set fsync = on", "fsync is off: a crash of the machine can destroy the database")
	add(s.fullPageWrites == "off", "set full_page_writes = on, unless the file system writes pages as a whole",
		"full_page_writes is off: a crash of the machine can destroy pages")
	add(s.synchronousCommit == "off", "set synchronous_commit = on", "synchronous_commit is off: a crash loses writes that were confirmed")
	add(s.synchronousCommit == "local" && s.standbys != "", "set synchronous_commit = on",
		"synchronous_commit is local: a failover loses writes that were confirmed")
	add(s.jit == "on", "set jit = off for the role and the database", "jit is on, although connections of Steward turn it off: statements are compiled for longer than they run")
	add(s.planner != "", "reset them for the server, the role and the database", "the planner may not use all methods: %s is off", s.planner)
	add(!hasEveryText(s.encoding), "make a backup and restore it into a database with the encoding UTF8",
		"the database has the encoding %s: text that it does not know is refused", s.encoding)
	needed := int64(cmp.Or(o.MaxConns, defaultMaxConns)+1) * max(s.replicas, 1)
	add(o.Pooler == "" && s.connections < needed, "raise max_connections, or the limit of the role or database",
		"%d connections are possible, and %d replicas use up to %d", s.connections, max(s.replicas, 1), needed)
	return all
}

func (e *postgresEngine) concerns(ctx context.Context) []Concern {
	var s serverSettings
	err := lazyRow{e, ctx, readServer, nil}.Scan(s.fields()...)
	if err == nil {
		err = lazyRow{e, ctx, countProcesses, []any{time.Now().Add(-aliveFor).UnixMicro()}}.Scan(&s.replicas)
		s.replicas++ // this one
	}
	if err != nil { // a compatible server may not have all settings
		return []Concern{{
			Problem: fmt.Sprintf("the settings of the server could not be read: %v", err),
			Advice:  "compare them with those of PostgreSQL",
		}}
	}
	return s.concerns(Options{Pooler: e.pooler, MaxConns: e.maxConns})
}
