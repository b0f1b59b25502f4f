// Package storage has the commands for buckets, objects, databases and key-value stores.
//
// A Copier copies files and objects: between a disk and buckets, or between buckets. Its plan lists the
// copies to make, and Run makes them, several at once, and reports each byte. Keys come from others:
// os.Root refuses those that would leave the target directory.
package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// Commands returns the commands.
func Commands(e *session.Env) []*cobra.Command {
	nouns := noun.Commands(e, bucketNoun(), resourceNoun(), databaseNoun(), storeNoun())
	return append([]*cobra.Command{objectCommand(e)}, nouns...)
}

func objectCommand(e *session.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "object",
		Short: "List, copy and delete objects in buckets",
		Long: `List, copy and delete objects in buckets. An object is named s3://bucket/key. What the API can do (ls, get,
rm, presign) is done by the API; bytes go over the S3 listener, with the credentials of the bucket.`,
		Args: session.Args(),
		RunE: session.ShowHelp,
	}
	cmd.AddCommand(objectList(e), objectGet(e), objectCopy(e), objectSync(e), objectCat(e), objectRemove(e), objectPresign(e))
	return cmd
}

// objectRun returns the RunE for a command whose first argument is an object or a prefix.
func objectRun(e *session.Env, run func(ctx context.Context, s *session.Session, l Location) error) func(*cobra.Command, []string) error {
	return e.Command(func(ctx context.Context, s *session.Session, args []string) error {
		l, err := ParseObject(args[0])
		if err != nil {
			return exit.Usagef("%v", err)
		}
		return run(ctx, s, l)
	})
}

// completeObject completes a bucket, and the folders and keys in it.
func completeObject(e *session.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		l, err := ParseObject(typed)
		if err == nil && strings.Count(typed, "/") > 2 {
			return completeKey(cmd.Context(), e, l), cobra.ShellCompDirectiveNoSpace
		}
		var names []string
		for _, line := range noun.Candidates(e, "bucket") {
			name, _, _ := strings.Cut(line, "\t")
			names = append(names, "s3://"+name+"/")
		}
		return names, cobra.ShellCompDirectiveNoSpace
	}
}

// maxKeys caps the keys that we give a shell.
const maxKeys = 500

// completeKey returns the folders and keys that begin with the typed text.
func completeKey(ctx context.Context, e *session.Env, typed Location) (names []string) {
	s, err := e.Open()
	if err != nil {
		return nil
	}
	below := typed
	below.Path = typed.Path[:strings.LastIndex(typed.Path, "/")+1]
	for raw, err := range folder(ctx, s, below) {
		var item struct{ Key, Prefix string }
		if err != nil || json.Unmarshal(raw, &item) != nil || len(names) == maxKeys {
			return names
		}
		if key := item.Key + item.Prefix; strings.HasPrefix(key, typed.Path) {
			names = append(names, Location{Bucket: typed.Bucket, Path: key}.String())
		}
	}
	return names
}

func objectPath(area string, l Location) string {
	return "/storage/" + area + "/" + url.PathEscape(l.Bucket)
}

func objectList(e *session.Env) *cobra.Command {
	var recursive bool
	var flags noun.ListFlags
	cmd := &cobra.Command{
		Use: "ls s3://BUCKET[/PREFIX]", Aliases: []string{"list"}, Args: session.Args("s3://BUCKET[/PREFIX]"),
		Short: "List what is directly below a prefix, or everything with --recursive", ValidArgsFunction: completeObject(e),
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "list all objects below the prefix")
	flags.Add(cmd)
	cmd.RunE = objectRun(e, func(ctx context.Context, s *session.Session, l Location) error {
		if recursive {
			query := url.Values{"prefix": {l.Path}, "limit": {strconv.Itoa(noun.PageSize)}}
			items := s.API.Pages(ctx, objectPath("objects", l), query, "objects")
			return noun.PrintList(ctx, s, []output.Column{
				{Title: "KEY", Path: "key", Cut: output.CutNever},
				{Title: "SIZE", Path: "size", Kind: output.Bytes},
				noun.TimeColumn("MODIFIED", "last_modified"),
				{Title: "TYPE", Path: "content_type", Wide: true},
				{Title: "ETAG", Path: "etag", Wide: true},
			}, items, flags)
		}
		return noun.PrintList(ctx, s, []output.Column{
			{Title: "NAME", Cut: output.CutNever, Value: func(item map[string]any) any {
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
			noun.CountColumn("OBJECTS", "object_count"), noun.TimeColumn("MODIFIED", "last_modified"),
		}, folder(ctx, s, l), flags)
	})
	return cmd
}

// folderPage is a page of folders and objects directly below a prefix.
type folderPage struct {
	Folders, Objects []json.RawMessage
	Next             string
}

// folder returns the folders and objects directly below a prefix.
func folder(ctx context.Context, s *session.Session, l Location) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		query := url.Values{"prefix": {l.Path}, "limit": {strconv.Itoa(noun.PageSize)}}
		for {
			var page folderPage
			raw, err := s.API.Get(ctx, objectPath("folders", l), query)
			if err == nil {
				err = session.Decode(raw, &page)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range append(page.Folders, page.Objects...) {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("cursor", page.Next)
		}
	}
}

func objectGet(e *session.Env) *cobra.Command {
	return &cobra.Command{
		Use: "get s3://BUCKET/KEY", Short: "Show size, type and time of an object", Args: session.Args("s3://BUCKET/KEY"),
		ValidArgsFunction: completeObject(e),
		RunE: objectRun(e, func(ctx context.Context, s *session.Session, l Location) error {
			query := url.Values{"prefix": {l.Path}, "limit": {"1"}}
			items, _, err := s.API.ObjectPage(ctx, session.Request{Method: "GET", Path: objectPath("objects", l), Query: query}, "objects")
			if err != nil {
				return err
			}
			var object struct{ Key string }
			if len(items) == 1 {
				if err := session.Decode(items[0], &object); err != nil {
					return err
				}
			}
			if object.Key != l.Path || l.Path == "" {
				return missing(fmt.Sprintf("%s does not exist", l))
			}
			return s.Printer.Item(items[0])
		}),
	}
}

func objectCat(e *session.Env) *cobra.Command {
	return &cobra.Command{
		Use: "cat s3://BUCKET/KEY", Short: "Write an object to standard output", Args: session.Args("s3://BUCKET/KEY"),
		ValidArgsFunction: completeObject(e),
		RunE: objectRun(e, func(ctx context.Context, s *session.Session, l Location) error {
			source, err := newCopier(s).Open(ctx, l)
			if err != nil {
				return transferFailure(err)
			}
			defer source.Close()
			if _, err := io.Copy(s.Out, source); err != nil {
				return transferFailure(err)
			}
			return nil
		}),
	}
}

func objectPresign(e *session.Env) *cobra.Command {
	var upload bool
	var expires time.Duration
	cmd := &cobra.Command{
		Use: "presign s3://BUCKET/KEY", Short: "Print a URL with which anybody can download or upload an object for a while",
		Args: session.Args("s3://BUCKET/KEY"), ValidArgsFunction: completeObject(e),
	}
	cmd.Flags().BoolVar(&upload, "upload", false, "make a URL for a PUT")
	cmd.Flags().DurationVar(&expires, "expires", 0, "how long it is valid, up to 168h; 0 for as long as the server says")
	cmd.RunE = objectRun(e, func(ctx context.Context, s *session.Session, l Location) error {
		query := url.Values{"key": {l.Path}, "operation": {"download"}}
		if upload {
			query.Set("operation", "upload")
		}
		if expires != 0 {
			query.Set("expiry_seconds", strconv.FormatInt(int64(expires/time.Second), 10))
		}
		raw, err := s.API.Get(ctx, objectPath("presign", l), query)
		if err != nil {
			return err
		}
		if !s.Printer.Tabular() {
			return s.Printer.Item(raw)
		}
		var presigned struct {
			URL string `json:"presigned_url"`
		}
		if err := session.Decode(raw, &presigned); err != nil {
			return err
		}
		return s.Printer.Text("%s", presigned.URL)
	})
	return cmd
}

func objectRemove(e *session.Env) *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use: "rm s3://BUCKET/KEY", Aliases: []string{"delete"}, Short: "Delete an object, or all below a prefix with --recursive",
		Args: session.Args("s3://BUCKET/KEY"), ValidArgsFunction: completeObject(e),
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "delete all objects that begin with the prefix")
	cmd.RunE = objectRun(e, func(ctx context.Context, s *session.Session, l Location) error {
		return removeObjects(ctx, s, l, recursive)
	})
	return cmd
}

func removeObjects(ctx context.Context, s *session.Session, l Location, recursive bool) error {
	if l.Path == "" {
		return exit.Usagef("name a key or a prefix; to delete all of a bucket, delete the bucket with `steward bucket delete %s`", l.Bucket)
	}
	query := url.Values{"key": {l.Path}}
	what := "object " + l.String()
	if recursive {
		query = url.Values{"prefix": {l.Path}}
		total, err := countObjects(ctx, s, l)
		if err != nil {
			return err
		}
		what = fmt.Sprintf("%s that begin with %s", output.Plural(total, "object"), l)
	}
	if err := s.Confirm(ctx, "Deleting "+what); err != nil {
		return err
	}
	res, err := s.API.Send(ctx, session.Request{Method: "DELETE", Path: objectPath("objects", l), Query: query})
	if err != nil {
		return err
	}
	var deleted struct {
		Count int64 `json:"deleted_count"`
	}
	if err := session.Decode(res.Body, &deleted); err != nil {
		return err
	}
	if deleted.Count == 0 {
		return missing(fmt.Sprintf("%s does not exist", l))
	}
	if !s.Printer.Tabular() {
		return s.Printer.Item(res.Body)
	}
	return s.Printer.Text("Deleted %s.", output.Plural(deleted.Count, "object"))
}

func countObjects(ctx context.Context, s *session.Session, l Location) (int64, error) {
	raw, err := s.API.Get(ctx, objectPath("objects", l), url.Values{"prefix": {l.Path}, "limit": {"0"}})
	if err != nil {
		return 0, err
	}
	var page struct{ Total int64 }
	err = session.Decode(raw, &page)
	return page.Total, err
}
