// Command steward runs the Steward control plane. See package app.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // for images and machines without CA certificates

	"steward/internal/app"
	"steward/internal/cli/session"
)

func main() {
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		stop(app.Signal{Signal: <-signals})
		signal.Stop(signals) // a second signal ends the process at once, unless the server waits for it
	}()
	os.Exit(app.Main(ctx, os.Args, session.Program{Environ: os.Environ(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
