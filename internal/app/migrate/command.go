package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"steward/internal/app/config"
	"steward/internal/app/masterkey"
	"steward/internal/app/operator"
	"steward/internal/cli/exit"
	"steward/internal/cli/session"
	"steward/internal/db/move"
	"steward/internal/status"
)

// Command returns the command that moves the rows.
func Command(p session.Program) *cobra.Command {
	var r Request
	var blobURL string
	var abort bool
	cmd := &cobra.Command{
		Use:   "migrate --to postgres://user:password@host/name",
		Short: "Move the rows from SQLite to PostgreSQL, or back",
		Long: `Move all rows to an empty PostgreSQL database, or with --to sqlite:DIR back into the data directory. The
server may be running; the command must run as the same user of the machine, with the settings of the
server.

The rows are copied and compared while the server goes on. Then it stops serving for a moment, and the
last changes are copied and compared. From then on it responds to all requests with 503: stop it, and
start it with the other --database-url. Databases and key-value stores stay in the data directory. Credentials,
tokens, cursors and positions of tails stay valid. The old rows are kept, and steward serve refuses them.

The bytes of objects stay where they are, unless --blob-url names another store: they are copied to that one
too, with the credentials in STEWARD_BLOB_ACCESS_KEY and STEWARD_BLOB_SECRET_KEY, and the server is started
with the other --blob-url as well. The bytes in the old store are kept.

With --region-engine db=postgres://…,kv=redis://… the databases and key-value stores of all regions whose engine is
embedded move to these servers, after the rows. They keep their names and get new credentials. The keys of stores are
copied and compared; databases move only if they have no tables. What cannot be moved stays in the data directory,
and is served from there. The command lists all of them, and prints the regions for the configuration file.

If the command or the server is interrupted before that, the server goes on as before, and the same
command goes on where it was. Until then, or until --abort, changes are logged in the database.`,
		Args: config.NoArguments,
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, _ []string) error {
			switch {
			case (r.To == "") == !abort:
				return exit.Usagef("give --to or --abort; see `steward migrate --help`")
			case !abort && !isPostgres(r.To) && !isSQLite(r.To):
				return exit.Usagef("--to must be postgres://… or sqlite:DIR")
			case abort && (blobURL != "" || r.RegionEngine != ""):
				return exit.Usagef("--blob-url and --region-engine go with --to; see `steward migrate --help`")
			case abort:
				return runAbort(ctx, p, cfg)
			}
			if r.RegionEngine != "" {
				if _, err := config.ParseRegionEngines(r.RegionEngine); err != nil {
					return exit.Usagef("--region-engine %s", err)
				}
			}
			r.Blobs = newBlobRequest(blobURL, cfg)
			return run(ctx, p, cfg, r)
		}),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().StringVar(&r.To, "to", "", "where the rows are moved to: postgres://… or sqlite:DIR")
	cmd.Flags().StringVar(&blobURL, "blob-url", "",
		"where the bytes of objects are moved to: disk, or s3://bucket/prefix?endpoint=https://host (default: they stay)")
	cmd.Flags().StringVar(&r.RegionEngine, "region-engine", "",
		"servers that embedded databases and key-value stores are moved to: db=postgres://…,kv=redis://… (default: they stay)")
	cmd.Flags().BoolVar(&abort, "abort", false, "end a move that was interrupted; the server must be stopped")
	config.AddFlags(cmd, "config", "data", "database-url", "database-pooler")
	return cmd
}

// run moves the rows in the running server, or here if none runs.
func run(ctx context.Context, p session.Program, cfg config.Config, r Request) error {
	show := &progress{out: p.Err, results: p.Out, began: time.Now(), begun: map[string]bool{}}
	done, err := ask(ctx, cfg.Data, r, show.event)
	running := !errors.Is(err, operator.ErrNoServer)
	if !running {
		done, err = runHere(ctx, cfg, r, show.event)
	}
	if err != nil {
		message := "the move was interrupted; the same command continues it, and --abort ends it"
		if running && show.begun["stop"] {
			message = "the command was interrupted, but the server completes the move; its log says when"
		}
		return exit.IfInterrupted(ctx, err, message)
	}
	if _, err := io.WriteString(p.Out, summary(r, done, running)); err != nil || done.Resources == nil {
		return err
	}
	return done.Resources.print(p.Out)
}

// summary sums up the move, and tells how to start the server.
func summary(r Request, done Done, running bool) string {
	text := fmt.Sprintf("Moved %s rows", humanize.Comma(done.Rows))
	if r.Blobs.URL != "" {
		text += fmt.Sprintf(" and the bytes of %s blobs", humanize.Comma(done.Blobs))
	}
	text += fmt.Sprintf(". Nothing was written for %s.\n", done.Pause.Round(time.Millisecond))
	if running {
		text += "The server responds with 503 now: stop it.\n"
	}
	text += "Start the server with the same settings but\n"
	if isSQLite(r.To) {
		text += "  without --database-url\n"
	} else {
		text += fmt.Sprintf("  --database-url '%s'\n", config.WithoutPassword(r.To))
	}
	text += r.Blobs.setting()
	if r.Blobs.URL != "" {
		return text + "The old rows are kept, and the bytes of objects in the old store.\n"
	}
	return text + "The old rows are kept.\n"
}

// runHere moves a stopped server's rows.
func runHere(ctx context.Context, cfg config.Config, r Request, report func(Event)) (Done, error) {
	d, closeAll, err := operator.Open(ctx, cfg, true)
	if err != nil {
		return Done{}, err
	}
	defer closeAll()
	j := &job{
		source: d, cfg: cfg, log: slog.New(slog.DiscardHandler), report: report,
		leave: func(context.Context) error { return nil }, moved: func() {}, interruptible: true,
		processes: &status.Processes{DB: d, Now: time.Now},
	}
	if r.RegionEngine != "" {
		if j.ring, err = masterkey.Existing(ctx, d, cfg); err != nil {
			return Done{}, err
		}
	}
	done, _, err := j.runAlone(ctx, r)
	return done, err
}

func runAbort(ctx context.Context, p session.Program, cfg config.Config) error {
	d, closeAll, err := operator.Open(ctx, cfg, true)
	if err != nil {
		return err
	}
	defer closeAll()
	if err := move.Abort(ctx, d); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out, "Changes are not logged any more. The target can be deleted.")
	return err
}

// progressInterval is the time between two lines of progress within one stage.
const progressInterval = 5 * time.Second

// progress shows a move's progress, as a line now and then.
type progress struct {
	out     io.Writer
	results io.Writer // for the outcomes of databases and stores
	began   time.Time
	last    time.Time
	// begun has the stages that were shown.
	begun map[string]bool
}

var stages = map[string]string{
	"copy": "copying rows", "bytes": "copying bytes of objects", "follow": "copying changes", "verify": "comparing rows",
	"stop": "stopping the server", "wait": "waiting until the other replicas are stopped",
	stageResources: "moving databases and key-value stores",
}

// event shows an event. Only people read the output, so it ignores write errors.
func (p *progress) event(e Event) {
	if e.Resource != nil {
		_ = e.Resource.print(p.results)
		return
	}
	if p.begun["wait"] && e.Stage == "follow" {
		return // changes are copied while it waits
	}
	if p.begun[e.Stage] && time.Since(p.last) < progressInterval {
		return
	}
	p.last = time.Now()
	if !p.begun[e.Stage] {
		p.begun[e.Stage] = true
		_, _ = fmt.Fprintln(p.out, stages[e.Stage])
		return
	}
	took := time.Since(p.began).Round(time.Second)
	if e.Round > 0 {
		_, _ = fmt.Fprintf(p.out, "%s, round %d: %s copied, %s left, after %v\n",
			stages[e.Stage], e.Round, humanize.Comma(e.Rows), humanize.Comma(e.Left), took)
		return
	}
	_, _ = fmt.Fprintf(p.out, "%s: %s %s, after %v\n", stages[e.Stage], e.Table, humanize.Comma(e.Rows), took)
}
