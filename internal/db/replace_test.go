package db

import (
	"log/slog"
	"path/filepath"
	"testing"
)

// TestBrokenConnectionIsReplaced has the connection that writes refuse to begin a transaction.
func TestBrokenConnectionIsReplaced(t *testing.T) {
	d, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "steward.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	// The writer is idle, so nothing else uses its connection.
	if err := d.engine.(*sqliteEngine).writer.conn.Exec("BEGIN"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Write(t.Context(), func(tx *Tx) error { return tx.Send("DELETE FROM meta") }); err != nil {
			t.Fatalf("after a transaction that was not ended: %v", err)
		}
	}
}
