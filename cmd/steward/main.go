// Command steward is the whole of Steward. See internal/app.
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
	context.AfterFunc(ctx, stop) // signals are the system's again after the first: a second one ends the process at once
	os.Exit(app.Main(ctx, os.Args, os.Environ(), os.Stdout, os.Stderr))
}
