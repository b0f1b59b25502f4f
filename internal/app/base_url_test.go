package app

import (
	"testing"

	"steward/internal/app/config"
	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestBaseURLOfInstallationsWithoutSettings starts each kind of installation: a new one is on
// localhost and stays there, and one that began elsewhere keeps its address.
func TestBaseURLOfInstallationsWithoutSettings(t *testing.T) {
	const local = "http://localhost:8080"
	given := map[string]string{"listen": "127.0.0.1:8080"}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		start := func(flags map[string]string, want string) {
			t.Helper()
			cfg, err := config.Load(flags, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := localhostURL(t.Context(), d, cfg)
			if err != nil || got != want {
				t.Errorf("with %v: %q, %v, want %q", flags, got, err, want)
			}
		}
		mark := func(key string) {
			t.Helper()
			err := d.Write(t.Context(), func(tx *db.Tx) error {
				_, _, err := tx.Once(key, "x")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		forget := func() {
			t.Helper()
			if _, err := d.Exec(t.Context(), `DELETE FROM meta WHERE key IN ('first_start', 'base_url')`); err != nil {
				t.Fatal(err)
			}
		}
		t.Run("new", func(t *testing.T) {
			start(nil, local)
			mark(keyFirstStart)
			start(nil, local)
			start(given, "")
			start(map[string]string{"base-url": "http://steward.test"}, "")
			start(map[string]string{"tls-cert": "/c", "tls-key": "/k"}, "https://localhost:8080")
			start(map[string]string{"acme": "steward.example.com"}, "")
		})
		t.Run("new at an address", func(t *testing.T) {
			forget()
			start(given, "")
			mark(keyFirstStart)
			start(nil, "")
		})
		t.Run("that began without it", func(t *testing.T) {
			forget()
			mark(keyFirstStart)
			start(nil, "")
		})
	})
}
