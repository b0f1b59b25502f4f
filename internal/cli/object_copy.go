package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"sync"

	"github.com/minio/minio-go/v7"
	s3credentials "github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/spf13/cobra"

	"steward/internal/cli/transfer"
)

func (e *env) objectCopy() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use:   "cp SOURCE TARGET",
		Short: "Copy files to a bucket, objects to the disk, or objects between buckets",
		Long: `Copy files to a bucket, objects to the disk, or objects between buckets. - is standard input or output.

  steward object cp photo.jpg s3://photos/2026/
  steward object cp s3://photos/2026/photo.jpg .
  steward object cp -r ./site s3://site
  pg_dump orders | steward object cp - s3://backups/orders.sql`,
		Args:              exactly("SOURCE", "TARGET"),
		ValidArgsFunction: e.completeTransfer,
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy a directory or everything below a prefix")
	cmd.RunE = e.transferRun(func(ctx context.Context, s *session, from, to transfer.Location) error {
		switch {
		case from.Path == "-" && !from.Remote():
			return s.upload(ctx, to)
		case to.Path == "-" && !to.Remote():
			return s.download(ctx, from)
		}
		return s.copy(ctx, from, to, recursive)
	})
	return cmd
}

// transferRun returns the RunE of a command with a source and a target, of which one is in a bucket.
func (e *env) transferRun(
	run func(ctx context.Context, s *session, from, to transfer.Location) error,
) func(*cobra.Command, []string) error {
	return e.command(func(ctx context.Context, s *session, args []string) error {
		from, err := transfer.Parse(args[0])
		if err != nil {
			return usagef("%v", err)
		}
		to, err := transfer.Parse(args[1])
		if err != nil {
			return usagef("%v", err)
		}
		if !from.Remote() && !to.Remote() {
			return usagef("one of SOURCE and TARGET must be in a bucket: s3://bucket/key")
		}
		return s.transferFailure(run(ctx, s, from, to))
	})
}

// completeTransfer completes files and buckets.
func (e *env) completeTransfer(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, _ := e.completeObject(cmd, args, typed)
	return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveDefault
}

// upload copies standard input to an object.
func (s *session) upload(ctx context.Context, to transfer.Location) error {
	if to.Path == "" {
		return usagef("name the key of the object: s3://%s/key", to.Bucket)
	}
	return s.copier().Put(ctx, to, s.In, -1)
}

// download copies an object to standard output.
func (s *session) download(ctx context.Context, from transfer.Location) error {
	source, err := s.copier().Open(ctx, from)
	if err != nil {
		return err
	}
	defer source.Close()
	_, err = io.Copy(s.Out, source)
	return err
}

func (s *session) copy(ctx context.Context, from, to transfer.Location, recursive bool) error {
	c := s.copier()
	if recursive {
		copies, err := c.PlanAll(ctx, from, to)
		if err != nil {
			return err
		}
		return s.transfer(ctx, c, copies)
	}
	one, err := c.PlanOne(ctx, from, to)
	if err != nil {
		return err
	}
	return s.transfer(ctx, c, []transfer.Copy{one})
}

// transfer makes copies and shows their progress.
func (s *session) transfer(ctx context.Context, c *transfer.Copier, copies []transfer.Copy) error {
	var total int64
	for _, one := range copies {
		total += one.Size
	}
	p := s.newProgress("Copied", total)
	if err := c.Run(ctx, copies, p.add); err != nil {
		p.fail()
		return err
	}
	p.finish(fmt.Sprintf("%d %s", len(copies), plural(int64(len(copies)), "object")))
	return nil
}

func (e *env) objectSync() *cobra.Command {
	var remove, dryRun bool
	cmd := &cobra.Command{
		Use:   "sync SOURCE TARGET",
		Short: "Copy what is missing, of another size or older in the target",
		Long: `Copy what is missing, of another size or older in the target, which is a directory or a prefix, as the
source is. With --delete, what only the target has is deleted.

  steward object sync ./site s3://site --delete
  steward object sync s3://photos/2026 ./2026`,
		Args:              exactly("SOURCE", "TARGET"),
		ValidArgsFunction: e.completeTransfer,
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "delete what only the target has")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be done")
	cmd.RunE = e.transferRun(func(ctx context.Context, s *session, from, to transfer.Location) error {
		c := s.copier()
		copies, extra, err := c.PlanSync(ctx, from, to)
		if err != nil {
			return err
		}
		if !remove {
			extra = nil
		}
		if dryRun {
			return s.printSync(copies, extra, to)
		}
		return s.sync(ctx, c, copies, extra, to)
	})
	return cmd
}

func (s *session) printSync(copies []transfer.Copy, extra []string, to transfer.Location) error {
	for _, one := range copies {
		if err := s.out.Text("copy %s", one.Source); err != nil {
			return err
		}
	}
	for _, name := range extra {
		if err := s.out.Text("delete %s", name); err != nil {
			return err
		}
	}
	if len(copies)+len(extra) == 0 {
		s.note("%s is up to date.", to)
	}
	return nil
}

func (s *session) sync(ctx context.Context, c *transfer.Copier, copies []transfer.Copy, extra []string, to transfer.Location) error {
	if len(copies)+len(extra) == 0 {
		s.note("%s is up to date.", to)
		return nil
	}
	if len(extra) > 0 {
		what := fmt.Sprintf("Deleting %d %s of %s that the source does not have, such as %s,",
			len(extra), plural(int64(len(extra)), "object"), to, extra[0])
		if err := s.confirm(ctx, what); err != nil {
			return err
		}
	}
	if len(copies) > 0 {
		if err := s.transfer(ctx, c, copies); err != nil {
			return err
		}
	}
	removed, err := c.Remove(ctx, to, extra)
	if removed > 0 {
		s.note("Deleted %d %s.", removed, plural(int64(removed), "object"))
	}
	return err
}

// bucketEntry has what S3 clients need of a bucket.
type bucketEntry struct {
	Name   string  `json:"bucket_name"`
	Access *string `json:"access_key"`
	Secret *string `json:"secret_key"`
	Region string  `json:"region"`
	Env    map[string]string
}

// copier returns a copier with the credentials of each bucket that it uses.
func (s *session) copier() *transfer.Copier {
	var mu sync.Mutex
	clients := map[string]*minio.Client{}
	return &transfer.Copier{Client: func(ctx context.Context, bucket string) (*minio.Client, error) {
		mu.Lock()
		defer mu.Unlock()
		if c := clients[bucket]; c != nil {
			return c, nil
		}
		c, err := s.s3Client(ctx, bucket)
		if err == nil {
			clients[bucket] = c
		}
		return c, err
	}}
}

func (s *session) s3Client(ctx context.Context, bucket string) (*minio.Client, error) {
	entry, err := s.bucket(ctx, bucket)
	if err != nil {
		return nil, err
	}
	if entry.Access == nil || entry.Secret == nil {
		return nil, &failure{
			code: ExitDenied, message: "you may not see the credentials of bucket " + bucket,
			advice: "The role member is required; see `steward whoami`.",
		}
	}
	endpoint, err := url.Parse(entry.Env["S3_ENDPOINT"])
	if err != nil || endpoint.Host == "" {
		return nil, errors.New("the server names no S3 endpoint")
	}
	return minio.New(endpoint.Host, &minio.Options{
		Creds: s3credentials.NewStaticV4(*entry.Access, *entry.Secret, ""), Secure: endpoint.Scheme == "https",
		Region: entry.Region, BucketLookup: minio.BucketLookupPath,
	})
}

func (s *session) bucket(ctx context.Context, name string) (entry bucketEntry, err error) {
	raw, err := s.api.get(ctx, "/resource", url.Values{"type": {"s3"}, "name": {name}})
	if err != nil {
		return entry, err
	}
	var res struct{ S3 []json.RawMessage }
	if err := decodeInto(raw, &res); err != nil {
		return entry, err
	}
	for _, item := range res.S3 {
		if err := decodeInto(item, &entry); err != nil {
			return entry, err
		}
		if entry.Name == name {
			return entry, nil
		}
	}
	return entry, &failure{
		code: ExitNotFound, message: fmt.Sprintf("bucket %s does not exist", name),
		advice: "List the buckets with `steward bucket list`.",
	}
}

// transferFailure returns the failure that an error of a transfer stands for.
func (s *session) transferFailure(err error) error {
	var f *failure
	if err == nil || errors.As(err, &f) || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, transfer.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &failure{code: ExitNotFound, message: err.Error(), cause: err}
	}
	if res := minio.ToErrorResponse(err); res.StatusCode != 0 {
		return &failure{code: codeOf(res.StatusCode), message: err.Error(), requestID: res.RequestID, cause: err}
	}
	var address *url.Error
	if errors.As(err, &address) {
		return unreachable(err, "the S3 listener at "+address.URL)
	}
	return err
}
