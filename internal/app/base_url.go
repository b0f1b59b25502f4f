package app

import (
	"context"
	"fmt"
	"net"

	"steward/internal/app/config"
	"steward/internal/db"
)

// keyBaseURL is the key in meta for the base URL of an installation that is used without settings.
const keyBaseURL = "base_url"

// localhostURL returns the base URL of an installation for which neither --base-url nor --listen is
// given. It is on localhost, since browsers allow no passkeys at IP addresses. A new installation
// stores it. One that began without it keeps its address, which its tokens and clients contain;
// localhostURL returns "" then, and also if the settings say where the API is.
func localhostURL(ctx context.Context, d *db.DB, cfg config.Config) (string, error) {
	if cfg.BaseURL != "" || cfg.ListenGiven {
		return "", nil
	}
	_, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return "", fmt.Errorf("--listen: %w", err)
	}
	host := net.JoinHostPort("localhost", port)
	var stored bool
	err = d.Write(ctx, func(tx *db.Tx) error {
		_, begun, err := db.Stored(tx, keyFirstStart)
		if err != nil {
			return err
		}
		if begun {
			_, stored, err = db.Stored(tx, keyBaseURL)
			return err
		}
		stored = true
		_, _, err = tx.Once(keyBaseURL, "http://"+host)
		return err
	})
	if err != nil || !stored {
		return "", err
	}
	return cfg.Scheme("http://", "https://") + host, nil
}
