package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app/config"
	"steward/internal/cli/exit"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
	"steward/internal/db"
	"steward/internal/rotation"
	"steward/internal/stamp"
	"steward/internal/status"
)

// stepTime is about how long the server works on one rotate request, so that it ends before the
// control socket's timeout.
const stepTime = 2 * time.Second

// rotateOperation does a part of the re-encryption. The command repeats it until all is done: if
// either side ends, nothing goes on in the background, and the next command continues.
func rotateOperation() operation[rotation.Request, rotation.Progress] {
	return operation[rotation.Request, rotation.Progress]{"/secrets/rotate", (*Operator).rotate}
}

func secretsOperation() operation[struct{}, rotation.Status] {
	return operation[struct{}, rotation.Status]{"/secrets/status", (*Operator).secrets}
}

func (o *Operator) rotate(ctx context.Context, in rotation.Request) (rotation.Progress, error) {
	r, err := o.rotation(ctx)
	if err != nil {
		return rotation.Progress{}, err
	}
	in.For = stepTime
	return r.Step(ctx, in)
}

func (o *Operator) secrets(ctx context.Context, _ struct{}) (rotation.Status, error) {
	r, err := o.rotation(ctx)
	if err != nil {
		return rotation.Status{}, err
	}
	return r.Status(ctx)
}

func (o *Operator) rotation(ctx context.Context) (*rotation.Rotation, error) {
	ring, err := o.ring(ctx)
	if err != nil {
		return nil, err
	}
	return &rotation.Rotation{DB: o.db, Ring: ring, Now: time.Now, Alive: alive}, nil
}

func alive(q db.Querier) ([]rotation.Process, error) {
	all, err := status.Alive(q, time.Now())
	processes := make([]rotation.Process, len(all))
	for i, p := range all {
		processes[i] = rotation.Process(p)
	}
	return processes, err
}

// rotateSecrets re-encrypts all secrets with the current master key. It shows the progress on
// standard error, and prints a summary.
func rotateSecrets(ctx context.Context, p session.Program, cfg config.Config, skipUnreadable bool) error {
	step, closeAll, err := rotateOperation().connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer closeAll()
	shown := session.NewProgress(p, "re-encrypting", 1, "rows")
	defer shown.End()
	in := rotation.Request{Start: true, SkipUnreadable: skipUnreadable}
	for {
		done, err := step(ctx, in)
		if err != nil {
			return exit.IfInterrupted(ctx, err, "the rotation was interrupted; run the command again to continue")
		}
		title := "re-encrypting"
		if slices.ContainsFunc(done.Tables, func(t rotation.Table) bool { return t.Pass > 1 }) {
			title = "checking" // for rows that the first pass missed
		}
		scanned, total := done.Rows()
		shown.Set(title, scanned, total)
		if done.Done {
			shown.End()
			return printRotated(p.Out, done)
		}
		in.Start = false
	}
}

func printRotated(out io.Writer, p rotation.Progress) error {
	resealed, unreadable := int64(0), int64(0)
	for _, t := range p.Tables {
		resealed += t.Resealed
		unreadable += t.Unreadable
	}
	if _, err := fmt.Fprintf(out, "All secrets are encrypted with the master key %s; %d were re-encrypted. Other keys are refused from now on: "+
		"remove STEWARD_OLD_MASTER_KEYS.\n", p.KeyID, resealed); err != nil {
		return err
	}
	if resealed == 0 {
		if _, err := fmt.Fprintln(out, "So they were before. To replace this key, set a new STEWARD_MASTER_KEY and this one as STEWARD_OLD_MASTER_KEYS, "+
			"restart, and run the command again."); err != nil {
			return err
		}
	}
	if unreadable == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "%d values cannot be decrypted with any key and were left as they are.\n", unreadable)
	return err
}

// connect returns a function that runs the operation any number of times: in the server that uses
// the data directory, or in this process if there is none.
func (op operation[In, Out]) connect(ctx context.Context, cfg config.Config) (do func(context.Context, In) (Out, error), closeAll func(), err error) {
	conn, err := dial(ctx, cfg.Data)
	if err == nil {
		_ = conn.Close() // each request has its own connection
		return func(ctx context.Context, in In) (out Out, err error) {
			return out, askServer(ctx, cfg.Data, op.path, in, &out)
		}, func() {}, nil
	}
	if !errors.Is(err, ErrNoServer) {
		return nil, nil, err
	}
	o, closeAll, err := openOperator(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, in In) (Out, error) { return op.do(o, ctx, in) }, closeAll, nil
}

// shownKey is a master key as it is printed.
type shownKey struct {
	ID     string      `json:"id"`
	State  string      `json:"state"`
	UsedAt stamp.Time  `json:"used_at"`
	Since  *stamp.Time `json:"since,omitempty"`
	Rows   string      `json:"rows"`
}

// secretsStatus prints the master keys that were used, and the rotation's progress.
func secretsStatus(ctx context.Context, p session.Program, cfg config.Config, format string) error {
	s, err := secretsOperation().run(ctx, cfg, struct{}{})
	if err != nil {
		return err
	}
	shown := make([]shownKey, len(s.Keys))
	for i, k := range s.Keys {
		shown[i] = showKey(k, s)
	}
	if err := session.PrintRows(p, format, shown, []output.Column{
		output.Name("KEY", "id"), {Title: "STATE", Path: "state"}, {Title: "SINCE", Path: "since"}, {Title: "ROWS", Path: "rows"},
	}); err != nil {
		return err
	}
	for _, process := range s.Processes {
		if process.KeyID != s.KeyID {
			if _, err := fmt.Fprintf(p.Err, "The process %s has the master key %s.\n", process.ID, orUnknown(process.KeyID)); err != nil {
				return err
			}
		}
	}
	return nil
}

func orUnknown(keyID string) string {
	if keyID == "" {
		return "of an earlier version, which does not tell"
	}
	return keyID
}

func showKey(k rotation.Key, s rotation.Status) shownKey {
	shown := shownKey{ID: k.ID, State: "used", UsedAt: k.UsedAt, Since: &k.UsedAt}
	switch {
	case k.RetiredAt != nil:
		shown.State = "retired"
		shown.Since = k.RetiredAt
	case k.RotatedAt != nil:
		shown.State = "encrypts all secrets"
		shown.Since = k.RotatedAt
	case k.RotationAt != nil:
		shown.State = "re-encrypting"
		shown.Since = k.RotationAt
	}
	if k.ID != s.KeyID {
		return shown
	}
	if shown.State == "used" {
		shown.State = "current"
	}
	if scanned, total := s.Rotation.Rows(); total > 0 {
		shown.Rows = fmt.Sprintf("%d of %d", scanned, total)
	}
	return shown
}

func secretsRotateCommand(p session.Program) *cobra.Command {
	var skipUnreadable bool
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Re-encrypt all secrets with the current master key",
		Long: `Re-encrypt every secret in the database that was encrypted with an old master key with the current one. First
restart every process with the new key as STEWARD_MASTER_KEY and the old one as STEWARD_OLD_MASTER_KEYS; the
command refuses to begin as long as one has another key. Afterwards the old key is refused.

The server may be running; the command must run as the same user of the machine. If it is interrupted, or the
server stops, run it again: it continues.`,
		Args: config.NoArguments,
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, _ []string) error {
			return rotateSecrets(ctx, p, cfg, skipUnreadable)
		}),
	}
	cmd.Flags().BoolVar(&skipUnreadable, "skip-unreadable", false, "leave values as they are that no key decrypts")
	config.AddFlags(cmd, "config", "data", "database-url", "database-pooler", "master-key-command")
	return cmd
}

func secretsStatusCommand(p session.Program) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the master keys that were used, and how far a rotation is",
		Long: `Show the ids of the master keys that secrets were encrypted with, which do not reveal the keys, and how far
steward secrets rotate is. The server may be running; the command must run as the same user of the machine.`,
		Args: config.NoArguments,
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, _ []string) error {
			return secretsStatus(ctx, p, cfg, format)
		}),
	}
	config.AddFlags(cmd, "config", "data", "database-url", "database-pooler", "master-key-command")
	session.AddFormatFlag(cmd, &format)
	return cmd
}
