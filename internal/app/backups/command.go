package backups

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"steward/internal/app/config"
	"steward/internal/backup"
	"steward/internal/cli/exit"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// settings returns the names of the settings that locate an installation.
func settings() []string {
	return []string{"config", "data", "database-url", "database-pooler", "blob-url"}
}

// Commands returns the commands that make, check and restore backups.
func Commands(p session.Program) []*cobra.Command {
	return []*cobra.Command{backupCommand(p), restoreCommand(p)}
}

func backupCommand(p session.Program) *cobra.Command {
	var s secrets
	c := &creation{Program: p}
	cmd := &cobra.Command{
		Use:   "backup TARGET",
		Short: "Make a backup of everything, while the server runs",
		Long: `Make a backup of all rows, the bytes of all objects, and the embedded databases and key-value stores, and
write it to a new file, which only its owner can read. If TARGET is a directory (or ends in a slash) or a URL such as
s3://bucket/prefix?endpoint=https://host, it is a repository of backups, which share the bytes of objects: only those
that are new are copied. The credentials of an S3 server are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Each
installation needs a repository of its own.

The server may be running; the command must run as the same user of the machine. With PostgreSQL, run it where the
data directory is.

The backup can be restored onto SQLite or PostgreSQL. Secrets in it are encrypted with the master key, which is
not in the backup unless --with-key is given: keep it elsewhere. Everything else can be read by whoever has the
backup, unless it is encrypted with --passphrase or --recipient. All backups of a directory or a bucket are encrypted
with the same passphrase, or for the same recipients.`,
		Args: config.OneArgument("target"),
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, args []string) (err error) {
			if c.encryption, err = s.encryption(p); err != nil {
				return err
			}
			c.cfg = cfg
			if isRepository(args[0]) {
				return c.toRepository(ctx, args[0])
			}
			if c.keep > 0 {
				return exit.Usagef("--keep needs a directory or an s3:// URL")
			}
			return c.toFile(ctx, args[0])
		}),
	}
	cmd.Flags().BoolVar(&c.withKey, "with-key", false, "put the master key into the backup")
	cmd.Flags().IntVar(&c.keep, "keep", 0, "in a directory or s3://, keep the newest `n` backups and remove others")
	s.addEncryption(cmd)
	config.AddFlags(cmd, settings()...)
	cmd.AddCommand(verifyCommand(p), listCommand(p))
	return cmd
}

// creation makes a backup.
type creation struct {
	session.Program
	cfg        config.Config
	withKey    bool
	encryption backup.Encryption
	keep       int // in a repository; 0: all
}

// toRepository adds a backup to a repository.
func (c *creation) toRepository(ctx context.Context, target string) error {
	if err := checkTarget(target, c.cfg.Data); err != nil {
		return err
	}
	r, err := openForAdding(ctx, c.Program, target, c.encryption)
	if err != nil {
		return err
	}
	shown := session.NewProgress(c.Program, "backing up", -1, "")
	added, err := r.create(ctx, time.Now(), func(ctx context.Context, w io.Writer, request Request) error {
		request.WithKey = c.withKey
		return writeBackup(ctx, c.cfg, c.Version, io.MultiWriter(w, shown), request)
	})
	shown.End()
	if err != nil {
		return exit.IfInterrupted(ctx, fmt.Errorf("no backup was added: %w", err),
			"the backup was interrupted and is not in the list; the next one uses the bytes of objects that were copied")
	}
	if _, err := fmt.Fprintf(c.Out, "The backup %s was added. Check it with steward backup verify.\n", added.ID); err != nil || c.keep < 1 {
		return err
	}
	removed, err := r.prune(ctx, c.keep)
	if err != nil {
		return fmt.Errorf("the backup was made, but old ones could not be removed: %w", err)
	}
	_, err = fmt.Fprintf(c.Out, "%d older backups were removed.\n", removed)
	return err
}

// toFile makes a backup in a file.
func (c *creation) toFile(ctx context.Context, path string) error {
	shown := session.NewProgress(c.Program, "backing up", -1, "")
	size, err := createFile(ctx, path, c.encryption, func(ctx context.Context, w io.Writer) error {
		return writeBackup(ctx, c.cfg, c.Version, io.MultiWriter(w, shown), Request{WithKey: c.withKey})
	})
	shown.End()
	if err != nil {
		return exit.IfInterrupted(ctx, fmt.Errorf("no backup was made: %w", err), "the backup was interrupted, and nothing is left of it")
	}
	_, err = fmt.Fprintf(c.Out, "%s has %s. Check it with steward backup verify.\n", path, humanize.Bytes(uint64(size)))
	return err
}

// opened is a backup to read.
type opened struct {
	*backup.Reader
	from  *repository // nil for a file
	id    string      // in a repository
	close func()
}

// openBackup opens a backup in a file or a repository; there it takes the one that --backup names,
// or the newest.
func openBackup(ctx context.Context, p session.Program, target string, s *secrets) (*opened, error) {
	d, err := s.decryption(p)
	if err != nil {
		return nil, err
	}
	if !isRepository(target) {
		return openFile(ctx, p, target, d)
	}
	r, err := openForReading(ctx, p, target)
	if err != nil {
		return nil, err
	}
	l, err := r.choose(ctx, s.archiveID)
	if err != nil {
		return nil, err
	}
	if err := r.decrypt(ctx, d); err != nil {
		return nil, fmt.Errorf("%s: %w", target, err)
	}
	in, closeAll, err := r.open(ctx, l.ID)
	return &opened{Reader: in, from: r, id: l.ID, close: closeAll}, err
}

func openFile(ctx context.Context, p session.Program, path string, d backup.Decryption) (*opened, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	size := int64(-1)
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	shown := session.NewProgress(p, "reading", size, "")
	plain, err := d.Decrypt(io.TeeReader(untilEnd{ctx, f}, shown))
	var in *backup.Reader
	if err == nil {
		in, err = backup.NewReader(plain)
	}
	if err != nil {
		shown.End()
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &opened{Reader: in, close: func() {
		shown.End()
		in.Close()
		_ = f.Close() // we only read it
	}}, nil
}

// untilEnd reads until a context ends.
type untilEnd struct {
	ctx context.Context
	io.Reader
}

func (r untilEnd) Read(to []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(to)
}

// listCommand returns the command that lists a repository's backups.
func listCommand(p session.Program) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "list TARGET",
		Short: "List the backups in a directory or a bucket",
		Args:  config.OneArgument("directory or s3:// URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := openForReading(cmd.Context(), p, args[0])
			if err != nil {
				return err
			}
			all, err := r.list(cmd.Context())
			if err != nil {
				return err
			}
			if len(all) == 0 {
				_, _ = fmt.Fprintf(p.Err, "steward: there are no backups in %s\n", args[0]) // for people
			}
			return session.PrintRows(p, format, all, []output.Column{
				output.Name("BACKUP", "id"), {Title: "CREATED", Path: "created_at"}, {Title: "BYTES", Path: "bytes"},
			})
		},
	}
	session.AddFormatFlag(cmd, &format)
	return cmd
}

func verifyCommand(p session.Program) *cobra.Command {
	var s secrets
	cmd := &cobra.Command{
		Use:   "verify TARGET",
		Short: "Check that a backup is complete and as it was written",
		Long: `Read a backup to its end and compare it with its manifest: the size and the hash of each part, the number of
rows of each table, and that the bytes of all objects, databases and key-value stores are there. Nothing is written. TARGET is a file, or a directory or s3:// URL with backups.`,
		Args: config.OneArgument("target"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := openBackup(cmd.Context(), p, args[0], &s)
			if err != nil {
				return err
			}
			var c *contents
			if in.from == nil {
				c, err = verify(cmd.Context(), in.Reader, nil)
			} else {
				c, err = in.from.verifyBackup(cmd.Context(), in.id, in.Reader)
			}
			in.close()
			if err != nil {
				return exit.IfInterrupted(cmd.Context(), fmt.Errorf("%s: %w", args[0], err),
					"the check was interrupted; nothing was found to be wrong until then")
			}
			h := in.Header()
			_, err = fmt.Fprintf(p.Out, "The backup is complete: %d rows, %d blobs, %d databases and %d key-value stores.\n"+
				"It was made at %s by Steward %s on %s, with the master key %s.\n", c.needs.Total(), c.blobs, len(c.databases), len(c.stores),
				h.CreatedAt.Format("2006-01-02 15:04:05 MST"), output.Clean(h.Steward), output.Clean(h.Engine), output.Clean(h.KeyID))
			warn(p, in.Summary().Warnings)
			return err
		},
	}
	s.addDecryption(cmd)
	return cmd
}

func warn(p session.Program, warnings []string) {
	for _, text := range warnings {
		_, _ = fmt.Fprintf(p.Err, "steward: %s\n", output.Clean(text)) // for people
	}
}

func restoreCommand(p session.Program) *cobra.Command {
	var s secrets
	cmd := &cobra.Command{
		Use:   "restore TARGET",
		Short: "Restore a backup into an empty data directory",
		Long: `Restore a backup into a new or empty data directory, and into an empty PostgreSQL database if --database-url is
given, whatever database the backup was made of. Objects go to files, or to the bucket of --blob-url. Everything is
compared with the backup before the command says that it is done; until then no server opens what was restored.

TARGET is a file, or a directory or s3:// URL with backups, of which the newest is restored unless --backup names
another. The master key is that of the backup, if it has one, or of STEWARD_MASTER_KEY, or it is asked for.`,
		Args: config.OneArgument("target"),
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, args []string) error {
			in, err := openBackup(ctx, p, args[0], &s)
			if err != nil {
				return err
			}
			r := &restore{cfg: cfg, in: in.Reader, from: in.from, program: p}
			done, err := r.run(ctx)
			in.close()
			if err != nil {
				left := r.left()
				return exit.IfInterrupted(ctx, fmt.Errorf("nothing was restored: %w%s", err, left),
					"the restore was interrupted, and nothing was restored"+left)
			}
			warn(p, done.Warnings)
			_, err = io.WriteString(p.Out, done.summary(cfg))
			return err
		}),
	}
	s.addDecryption(cmd)
	config.AddFlags(cmd, settings()...)
	return cmd
}

// summary sums up the restore, and tells how to start the server. It shows no URLs, which have
// passwords.
func (r *Restored) summary(cfg config.Config) string {
	text := fmt.Sprintf("Restored and checked: %d rows, %d blobs, %d databases and key-value stores, of %s.\n",
		r.Total(), r.Blobs, r.Files, r.Header.CreatedAt.Format("2006-01-02 15:04:05 MST"))
	if n := r.Rows["webhook_queue"]; n > 0 {
		text += fmt.Sprintf("%d deliveries that were pending then will be sent again after the start; receivers recognise them by webhook-id.\n", n)
	}
	if n := r.Rows["mails"]; n > 0 {
		text += fmt.Sprintf("%d mails that were waiting then will be sent again after the start.\n", n)
	}
	if !r.KeyWritten {
		text += "The master key is not in the data directory: the server needs the same setting of it as this command.\n"
	}
	text += "Start it with: steward serve --data " + cfg.Data
	if cfg.DatabaseURL != "" {
		text += " --database-url …"
	}
	if cfg.BlobURL != nil {
		text += " --blob-url …"
	}
	if r.Header.BaseURL != "" {
		text += " --base-url " + output.Clean(r.Header.BaseURL) +
			"\nWith another base URL, access tokens, passkeys and links of the backup are not valid any more."
	}
	return text + "\n"
}
