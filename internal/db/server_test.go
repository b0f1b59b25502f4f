package db_test

import (
	"slices"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

// TestServerSettingsThatHurtAreNamed reads them as an inspection does, and as a start does.
func TestServerSettingsThatHurtAreNamed(t *testing.T) {
	server := dbtest.NewServer(t, "max_connections=25", "fsync=on", "full_page_writes=on")
	for _, test := range []struct {
		change string
		want   []string
		not    string
	}{ // one after the other
		{"SELECT 1", []string{"22 connections are possible, and 1 replicas use up to 33"}, "off"},
		{"ALTER DATABASE postgres CONNECTION LIMIT 7", []string{"7 connections are possible"}, "off"},
		{"ALTER DATABASE postgres SET enable_indexscan = off", []string{"enable_indexscan is off"}, "jit"},
		{"ALTER ROLE postgres SET jit = on", []string{"enable_indexscan is off"}, "jit"}, // connections turn it off
		{"ALTER ROLE postgres SET synchronous_commit = local", []string{"7 connections"}, "failover"},
		{"ALTER SYSTEM SET synchronous_standby_names = 'missing'", []string{"7 connections", "a failover loses writes"}, "fsync"},
	} {
		execute(t, server.URL, test.change, "SELECT pg_reload_conf()")
		waittest.Until(t, test.change, func() (string, bool) {
			got := concerns(t, server.URL)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					return got, false
				}
			}
			return got, !strings.Contains(got, test.not)
		})
	}
	unsafe := concerns(t, dbtest.Postgres(t))
	if !strings.Contains(unsafe, "fsync is off") || !strings.Contains(unsafe, "full_page_writes is off") {
		t.Errorf("a server for tests: %q", unsafe)
	}
}

// TestDatabaseMustTakeEveryText opens a database whose encoding has a part of Unicode only: a new one is refused,
// and one that is in use is told.
func TestDatabaseMustTakeEveryText(t *testing.T) {
	server := dbtest.NewServer(t)
	execute(t, server.URL, "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	latin := server.URL[:strings.LastIndex(server.URL, "/")] + "/latin"
	_, err := db.Open(t.Context(), db.Options{URL: latin})
	if err == nil || !strings.Contains(err.Error(), "encoding LATIN1") {
		t.Errorf("got %v", err)
	}
	execute(t, latin, "CREATE TABLE meta (key text)")
	_, err = db.Open(t.Context(), db.Options{URL: latin})
	if err != nil && strings.Contains(err.Error(), "encoding") {
		t.Errorf("one that is in use is refused: %v", err)
	}
}

// concerns returns the problems that an inspection finds, all of which a start tells too.
func concerns(t *testing.T, url string) string {
	t.Helper()
	var observed []string
	d, err := db.Open(t.Context(), db.Options{URL: url})
	must(t, err)
	for _, c := range d.Concerns(t.Context()) {
		observed = append(observed, c.Problem)
	}
	must(t, d.Close())
	state, err := db.Inspect(t.Context(), db.Options{URL: url}, "k")
	must(t, err)
	var all []string
	for _, c := range state.Concerns {
		all = append(all, c.Problem)
		if !slices.Contains(observed, c.Problem) {
			t.Errorf("a start does not tell %q", c.Problem)
		}
	}
	return strings.Join(all, "; ")
}
