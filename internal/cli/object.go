package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"steward/internal/cli/output"
	"steward/internal/cli/transfer"
)

func (e *env) objectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "object",
		Short:   "List, copy and delete objects in buckets",
		GroupID: groupData,
		Long: `List, copy and delete objects in buckets. An object is named s3://bucket/key. What the API can do (ls, get,
rm, presign) is done by the API; bytes go over the S3 listener, with the credentials of the bucket.`,
		Args: exactly(),
		RunE: showHelp,
	}
	cmd.AddCommand(e.objectList(), e.objectGet(), e.objectCopy(), e.objectSync(), e.objectCat(), e.objectRemove(), e.objectPresign())
	return cmd
}

// objectRun returns the RunE of a command whose first argument is an object or a prefix.
func (e *env) objectRun(run func(ctx context.Context, s *session, l transfer.Location) error) func(*cobra.Command, []string) error {
	return e.command(func(ctx context.Context, s *session, args []string) error {
		l, err := transfer.ParseObject(args[0])
		if err != nil {
			return usagef("%v", err)
		}
		return run(ctx, s, l)
	})
}

// completeObject completes the bucket of an object.
func (e *env) completeObject(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, line := range e.candidates("bucket", nil) {
		name, _, _ := strings.Cut(line, "\t")
		names = append(names, "s3://"+name+"/")
	}
	return names, cobra.ShellCompDirectiveNoSpace
}

func objectPath(area string, l transfer.Location) string {
	return "/storage/" + area + "/" + url.PathEscape(l.Bucket)
}

func (e *env) objectList() *cobra.Command {
	var recursive bool
	var flags listFlags
	cmd := &cobra.Command{
		Use: "ls s3://BUCKET[/PREFIX]", Aliases: []string{"list"}, Args: exactly("s3://BUCKET[/PREFIX]"),
		Short: "List what is directly below a prefix, or everything with --recursive", ValidArgsFunction: e.completeObject,
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "list all objects below the prefix")
	flags.add(cmd)
	cmd.RunE = e.objectRun(func(ctx context.Context, s *session, l transfer.Location) error {
		if recursive {
			v := verb{
				route: "GET " + objectPath("objects", l), list: true, pick: "objects",
				fixed: map[string]any{"prefix": l.Path}, columns: objectColumns(),
			}
			return s.printList(ctx, noun{}, v, input{}, flags)
		}
		return s.printFolder(ctx, l, flags.limit)
	})
	return cmd
}

func objectColumns() []output.Column {
	return []output.Column{
		{Title: "KEY", Path: "key", Keep: true},
		{Title: "SIZE", Path: "size", Kind: output.Bytes},
		timeColumn("MODIFIED", "last_modified"),
		{Title: "TYPE", Path: "content_type", Wide: true},
		{Title: "ETAG", Path: "etag", Wide: true},
	}
}

// printFolder prints the folders and objects directly below a prefix.
func (s *session) printFolder(ctx context.Context, l transfer.Location, limit int) error {
	list := s.out.List([]output.Column{
		{Title: "NAME", Keep: true, Value: func(item map[string]any) any {
			if key := item["key"]; key != nil {
				return key
			}
			return item["prefix"]
		}},
		{Title: "SIZE", Kind: output.Bytes, Value: func(item map[string]any) any {
			if size := item["size"]; size != nil {
				return size
			}
			return item["total_size"]
		}},
		column("OBJECTS", "object_count"), timeColumn("MODIFIED", "last_modified"),
	})
	query := url.Values{"prefix": {l.Path}, "limit": {strconv.Itoa(pageSize)}}
	for {
		page, err := s.folderPage(ctx, l, query)
		if err != nil {
			return err
		}
		for _, item := range append(page.Folders, page.Objects...) {
			if limit > 0 && list.Count() == limit {
				s.note("Only the first %d are shown; --limit 0 shows all.", limit)
				return list.Close()
			}
			if err := list.Add(item); err != nil {
				return err
			}
		}
		if page.Next == "" {
			break
		}
		query.Set("cursor", page.Next)
	}
	if list.Count() == 0 && s.out.Tabular() {
		s.note("Nothing found.")
	}
	return list.Close()
}

// folder is a page of what is directly below a prefix.
type folder struct {
	Folders, Objects []json.RawMessage
	Next             string
}

func (s *session) folderPage(ctx context.Context, l transfer.Location, query url.Values) (page folder, err error) {
	raw, err := s.api.get(ctx, objectPath("folders", l), query)
	if err != nil {
		return page, err
	}
	return page, decodeInto(raw, &page)
}

func (e *env) objectGet() *cobra.Command {
	return &cobra.Command{
		Use: "get s3://BUCKET/KEY", Short: "Show size, type and time of an object", Args: exactly("s3://BUCKET/KEY"),
		ValidArgsFunction: e.completeObject,
		RunE: e.objectRun(func(ctx context.Context, s *session, l transfer.Location) error {
			query := url.Values{"prefix": {l.Path}, "limit": {"1"}}
			items, _, err := s.api.objectPage(ctx, request{method: "GET", path: objectPath("objects", l), query: query}, "objects")
			if err != nil {
				return err
			}
			var object struct{ Key string }
			if len(items) == 1 {
				if err := decodeInto(items[0], &object); err != nil {
					return err
				}
			}
			if object.Key != l.Path || l.Path == "" {
				return &failure{code: ExitNotFound, message: fmt.Sprintf("%s does not exist", l)}
			}
			return s.out.Item(items[0])
		}),
	}
}

func (e *env) objectCat() *cobra.Command {
	return &cobra.Command{
		Use: "cat s3://BUCKET/KEY", Short: "Write an object to standard output", Args: exactly("s3://BUCKET/KEY"),
		ValidArgsFunction: e.completeObject,
		RunE: e.objectRun(func(ctx context.Context, s *session, l transfer.Location) error {
			source, err := s.copier().Open(ctx, l)
			if err != nil {
				return s.transferFailure(err)
			}
			defer source.Close()
			if _, err := io.Copy(s.Out, source); err != nil {
				return s.transferFailure(err)
			}
			return nil
		}),
	}
}

func (e *env) objectPresign() *cobra.Command {
	var upload bool
	cmd := &cobra.Command{
		Use: "presign s3://BUCKET/KEY", Short: "Print a URL with which anybody can download or upload an object for a while",
		Args: exactly("s3://BUCKET/KEY"), ValidArgsFunction: e.completeObject,
	}
	cmd.Flags().BoolVar(&upload, "upload", false, "make a URL for a PUT")
	cmd.RunE = e.objectRun(func(ctx context.Context, s *session, l transfer.Location) error {
		query := url.Values{"key": {l.Path}, "operation": {"download"}}
		if upload {
			query.Set("operation", "upload")
		}
		raw, err := s.api.get(ctx, objectPath("presign", l), query)
		if err != nil {
			return err
		}
		if !s.out.Tabular() {
			return s.out.Item(raw)
		}
		var presigned struct {
			URL string `json:"presigned_url"`
		}
		if err := decodeInto(raw, &presigned); err != nil {
			return err
		}
		return s.out.Text("%s", presigned.URL)
	})
	return cmd
}

func (e *env) objectRemove() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use: "rm s3://BUCKET/KEY", Aliases: []string{"delete"}, Short: "Delete an object, or all below a prefix with --recursive",
		Args: exactly("s3://BUCKET/KEY"), ValidArgsFunction: e.completeObject,
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "delete all objects that begin with the prefix")
	cmd.RunE = e.objectRun(func(ctx context.Context, s *session, l transfer.Location) error {
		return s.removeObjects(ctx, l, recursive)
	})
	return cmd
}

func (s *session) removeObjects(ctx context.Context, l transfer.Location, recursive bool) error {
	if l.Path == "" {
		return usagef("name a key or a prefix; to delete all of a bucket, delete the bucket with `steward bucket delete %s`", l.Bucket)
	}
	query := url.Values{"key": {l.Path}}
	what := "object " + l.String()
	if recursive {
		query = url.Values{"prefix": {l.Path}}
		total, err := s.countObjects(ctx, l)
		if err != nil {
			return err
		}
		what = fmt.Sprintf("%s %s that begin with %s", humanize.Comma(total), plural(total, "object"), l)
	}
	if err := s.confirm(ctx, "Deleting "+what); err != nil {
		return err
	}
	res, err := s.api.send(ctx, request{method: "DELETE", path: objectPath("objects", l), query: query})
	if err != nil {
		return err
	}
	var deleted struct {
		Count int64 `json:"deleted_count"`
	}
	if err := decodeInto(res.Body, &deleted); err != nil {
		return err
	}
	if deleted.Count == 0 {
		return &failure{code: ExitNotFound, message: fmt.Sprintf("%s does not exist", l)}
	}
	if !s.out.Tabular() {
		return s.out.Item(res.Body)
	}
	return s.out.Text("Deleted %s %s.", humanize.Comma(deleted.Count), plural(deleted.Count, "object"))
}

// countObjects returns how many objects begin with a prefix.
func (s *session) countObjects(ctx context.Context, l transfer.Location) (int64, error) {
	raw, err := s.api.get(ctx, objectPath("objects", l), url.Values{"prefix": {l.Path}, "limit": {"0"}})
	if err != nil {
		return 0, err
	}
	var page struct{ Total int64 }
	err = decodeInto(raw, &page)
	return page.Total, err
}

func plural(n int64, thing string) string {
	if n == 1 {
		return thing
	}
	return thing + "s"
}
