package storage

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

func objectCopy(e *session.Env) *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use:   "cp SOURCE TARGET",
		Short: "Copy files to a bucket, objects to the disk, or objects between buckets",
		Long: `Copy files to a bucket, objects to the disk, or objects between buckets. - is standard input or output.

  steward object cp photo.jpg s3://photos/2026/
  steward object cp s3://photos/2026/photo.jpg .
  steward object cp -r ./site s3://site
  pg_dump orders | steward object cp - s3://backups/orders.sql`,
		Args:              session.Args("SOURCE", "TARGET"),
		ValidArgsFunction: completeTransfer(e),
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy a directory or everything below a prefix")
	cmd.RunE = transferRun(e, func(ctx context.Context, s *session.Session, from, to Location) error {
		switch {
		case from.Path == "-" && !from.Remote():
			return upload(ctx, s, to)
		case to.Path == "-" && !to.Remote():
			source, err := newCopier(s).Open(ctx, from)
			if err != nil {
				return err
			}
			defer source.Close()
			_, err = io.Copy(s.Out, source)
			return err
		}
		c := newCopier(s)
		if recursive {
			copies, err := c.PlanAll(ctx, from, to)
			if err != nil {
				return err
			}
			return runCopies(ctx, s, c, copies)
		}
		one, err := c.PlanOne(ctx, from, to)
		if err != nil {
			return err
		}
		return runCopies(ctx, s, c, []Copy{one})
	})
	return cmd
}

// transferRun returns the RunE for a command with a source and a target. One of them is in a bucket.
func transferRun(
	e *session.Env, run func(ctx context.Context, s *session.Session, from, to Location) error,
) func(*cobra.Command, []string) error {
	return e.Command(func(ctx context.Context, s *session.Session, args []string) error {
		from, err := Parse(args[0])
		if err != nil {
			return exit.Usagef("%v", err)
		}
		to, err := Parse(args[1])
		if err != nil {
			return exit.Usagef("%v", err)
		}
		if !from.Remote() && !to.Remote() {
			return exit.Usagef("one of SOURCE and TARGET must be in a bucket: s3://bucket/key")
		}
		return transferFailure(run(ctx, s, from, to))
	})
}

// completeTransfer completes files and buckets.
func completeTransfer(e *session.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		names, _ := completeObject(e)(cmd, args, typed)
		return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveDefault
	}
}

func upload(ctx context.Context, s *session.Session, to Location) error {
	if to.Path == "" {
		return exit.Usagef("name the key of the object: s3://%s/key", to.Bucket)
	}
	return newCopier(s).Put(ctx, to, s.In, -1)
}

func runCopies(ctx context.Context, s *session.Session, c *Copier, copies []Copy) error {
	var total int64
	for _, one := range copies {
		total += one.Size
	}
	p := newProgress(s.Env, "Copied", total)
	if err := c.Run(ctx, copies, p); err != nil {
		p.fail()
		return err
	}
	p.finish(output.Plural(int64(len(copies)), "object"))
	return nil
}

func objectSync(e *session.Env) *cobra.Command {
	var remove, dryRun bool
	cmd := &cobra.Command{
		Use:   "sync SOURCE TARGET",
		Short: "Copy what is missing, of another size or older in the target",
		Long: `Copy what is missing, of another size or older in the target, which is a directory or a prefix, as the
source is. With --delete, what only the target has is deleted.

  steward object sync ./site s3://site --delete
  steward object sync s3://photos/2026 ./2026`,
		Args:              session.Args("SOURCE", "TARGET"),
		ValidArgsFunction: completeTransfer(e),
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "delete what only the target has")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be done")
	cmd.RunE = transferRun(e, func(ctx context.Context, s *session.Session, from, to Location) error {
		c := newCopier(s)
		copies, extra, err := c.PlanSync(ctx, from, to)
		if err != nil {
			return err
		}
		if !remove {
			extra = nil
		}
		plan := syncPlan{to: to, copies: copies, extra: extra}
		if len(copies)+len(extra) == 0 {
			s.Note("%s is up to date.", to)
			return nil
		}
		if dryRun {
			return plan.print(s)
		}
		return plan.run(ctx, s, c)
	})
	return cmd
}

type syncPlan struct {
	to     Location
	copies []Copy
	// extra has the names to delete.
	extra []string
}

func (p syncPlan) print(s *session.Session) error {
	for _, one := range p.copies {
		if err := s.Printer.Text("copy %s", one.Source); err != nil {
			return err
		}
	}
	for _, name := range p.extra {
		if err := s.Printer.Text("delete %s", name); err != nil {
			return err
		}
	}
	return nil
}

func (p syncPlan) run(ctx context.Context, s *session.Session, c *Copier) error {
	if len(p.extra) > 0 {
		what := fmt.Sprintf("Deleting %s of %s that the source does not have, such as %s,",
			output.Plural(int64(len(p.extra)), "object"), p.to, p.extra[0])
		if err := s.Confirm(ctx, what); err != nil {
			return err
		}
	}
	if len(p.copies) > 0 {
		if err := runCopies(ctx, s, c, p.copies); err != nil {
			return err
		}
	}
	removed, err := c.Remove(ctx, p.to, p.extra)
	if removed > 0 {
		s.Note("Deleted %s.", output.Plural(int64(removed), "object"))
	}
	return err
}

// progress shows the progress of a transfer: with a bar on a terminal, else with a line at the end.
type progress struct {
	env   *session.Env
	bar   *progressbar.ProgressBar // nil without a terminal
	verb  string
	start time.Time
	done  atomic.Int64
}

// newProgress returns the progress towards a total in bytes. The verb is in the past tense.
func newProgress(e *session.Env, verb string, total int64) *progress {
	bar := e.NewBar(total, progressbar.OptionShowBytes(true))
	return &progress{env: e, bar: bar, verb: verb, start: time.Now()}
}

// Write counts finished bytes. Only people read the output, so it ignores the bar's errors.
func (p *progress) Write(finished []byte) (int, error) {
	p.done.Add(int64(len(finished)))
	if p.bar != nil {
		_ = p.bar.Add(len(finished))
	}
	return len(finished), nil
}

func (p *progress) finish(what string) {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.env.Note("")
	}
	bytes := p.done.Load()
	took := time.Since(p.start)
	rate := int64(float64(bytes) / max(took.Seconds(), 0.001))
	p.env.Note("%s %s, %s in %s (%s/s).", p.verb, what, output.ByteSize(bytes), output.Duration(took), output.ByteSize(rate))
}

// fail ends the line of a bar that is not full.
func (p *progress) fail() {
	if p.bar != nil {
		p.env.Note("")
	}
}
