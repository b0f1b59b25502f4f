package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Addresses is the content of steward.json, by which other programs find a running server.
type Addresses struct {
	PID     int               `json:"pid"`
	Version string            `json:"version"`
	BaseURL string            `json:"base_url"`
	Listen  map[string]string `json:"listen"` // actual addresses, by listener: api, metrics
}

// WriteAddresses writes steward.json in the data directory. The file is replaced in one step; if it
// cannot be written it is removed, because the addresses of an earlier process would mislead. It is
// not synced, because each start writes it again. The caller holds the lock of the directory, so
// one temporary name is enough.
func WriteAddresses(dir string, a Addresses) error {
	name := filepath.Join(dir, "steward.json")
	if err := replaceFile(name, a); err != nil {
		_ = os.Remove(name + ".tmp")
		_ = os.Remove(name)
		return fmt.Errorf("write steward.json: %w", err)
	}
	return nil
}

func replaceFile(name string, a Addresses) error {
	content, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".tmp", append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}
