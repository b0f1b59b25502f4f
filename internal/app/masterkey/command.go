package masterkey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"steward/internal/app/config"
)

const (
	// commandTimeout bounds how long the command that prints the master key may take.
	commandTimeout = 30 * time.Second
	// maxOutput bounds its output.
	maxOutput = 4 << 10
)

// runCommand returns the master key that a command prints. Errors contain neither its output nor its
// standard error: both may have secrets.
func runCommand(ctx context.Context, words []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	out := &limited{}
	cmd.Stdout = out
	cmd.WaitDelay = time.Second // the command's child may keep its output open
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, fmt.Errorf("--master-key-command: %w", ctx.Err())
	case ctx.Err() != nil:
		return nil, fmt.Errorf("--master-key-command: the command did not end within %v", commandTimeout)
	case out.over:
		return nil, fmt.Errorf("--master-key-command: the command printed more than %d bytes", maxOutput)
	case err != nil:
		return nil, fmt.Errorf("--master-key-command: %w; run the command by hand to see why", err)
	}
	key, err := config.ParseMasterKey(out.buffer.String())
	if err != nil {
		return nil, fmt.Errorf("--master-key-command: what the command prints %w", err)
	}
	return []byte(key), nil
}

var errOutput = errors.New("too much output")

// limited is a buffer that holds maxOutput bytes.
type limited struct {
	buffer bytes.Buffer
	over   bool
}

// Write implements io.Writer. If the buffer is full, it returns an error, which ends the command.
func (l *limited) Write(p []byte) (int, error) {
	if l.buffer.Len()+len(p) > maxOutput {
		l.over = true
		return 0, errOutput
	}
	return l.buffer.Write(p)
}
