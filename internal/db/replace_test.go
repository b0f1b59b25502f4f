package db

import (
	"log/slog"
	"path/filepath"
	"testing"
)

// TestBrokenWriterIsReplaced: a connection that will not begin a transaction does not keep writes away for ever.
func TestBrokenWriterIsReplaced(t *testing.T) {
	d, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "steward.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	// The writer rests: nobody else uses its connection now.
	if err := d.engine.(*sqliteEngine).writer.control("BEGIN"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Write(t.Context(), func(tx *Tx) error { return tx.Send("DELETE FROM meta") }); err != nil {
			t.Fatalf("after a transaction that nobody ended: %v", err)
		}
	}
}
