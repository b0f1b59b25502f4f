// Command steward runs the Steward control plane. See package app.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"steward/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(app.Main(ctx, os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
