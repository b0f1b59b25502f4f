package storage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// valueVerb is the verb for commands about a key: their first argument is a store.
func valueVerb() noun.Verb {
	return noun.Verb{Route: "GET /resource/{org}/{region}/{store}/value"}
}

// storeCommand completes a command whose first argument is a store and whose others are keys. run
// has the store in its input.
func storeCommand(
	e *session.Env, cmd *cobra.Command, run func(ctx context.Context, s *session.Session, in noun.Input, args []string) error,
) *cobra.Command {
	var region string
	v := valueVerb()
	cmd.RunE = e.Command(func(ctx context.Context, s *session.Session, args []string) error {
		in, err := noun.NewInput(ctx, s, v, args[:1], region)
		if err != nil {
			return err
		}
		return run(ctx, s, in, args[1:])
	})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return noun.CompleteArgs(e, v)(cmd, args, typed)
		}
		return completeStoreKey(cmd.Context(), e, args[0], typed), cobra.ShellCompDirectiveNoFileComp
	}
	noun.AddRegion(e, cmd, &region, v)
	return cmd
}

// completeStoreKey returns a store's keys that begin with the typed text.
func completeStoreKey(ctx context.Context, e *session.Env, store, typed string) (keys []string) {
	s, err := e.Open()
	if err != nil {
		return nil
	}
	in, err := noun.NewInput(ctx, s, valueVerb(), []string{store}, "")
	if err != nil {
		return nil
	}
	query := url.Values{"prefix": {typed}, "limit": {strconv.Itoa(maxKeys)}}
	items, _, err := s.API.ObjectPage(ctx, session.Request{
		Method: http.MethodGet, Path: in.Expand("/resource/{org}/{region}/{store}/keys"), Query: query,
	}, "keys")
	if err != nil {
		return nil
	}
	for _, raw := range items {
		var item struct{ Key string }
		if json.Unmarshal(raw, &item) == nil {
			keys = append(keys, item.Key)
		}
	}
	return keys
}

// valueRequest returns a request about a key, and about an item in it unless item is empty.
func valueRequest(in noun.Input, method, key, item string) session.Request {
	query := url.Values{"key": {key}}
	if item != "" {
		query.Set("item", item)
	}
	if !utf8.ValidString(key + item) {
		query.Set("encoding", "base64")
		for name := range query {
			if name != "encoding" {
				query.Set(name, base64.RawURLEncoding.EncodeToString([]byte(query.Get(name))))
			}
		}
	}
	return session.Request{Method: method, Path: in.Expand("/resource/{org}/{region}/{store}/value"), Query: query}
}

type storeValue struct {
	Type  string            `json:"type"`
	TTL   *int64            `json:"ttl_ms,omitempty"`
	Size  int64             `json:"size"`
	Value any               `json:"value,omitempty"`
	Items []json.RawMessage `json:"items,omitempty"`
	Next  string            `json:"next,omitempty"`
}

func storeGet(e *session.Env) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "get STORE [KEY]",
		Short: "Show a key-value store with its credentials, or the value of a key",
		Long: `Show a key-value store with its credentials, or the value of a key. Of a string the bytes are printed as they
are, unless the output is a terminal; of other values a table of the items.

  steward kv get sessions
  steward kv get sessions user:1
  steward kv get sessions photo > photo.png
  steward kv get sessions cart:7 -o json`,
		Args: session.Args("STORE", "[KEY]"),
	}
	cmd.Flags().IntVar(&limit, "items", 100, "print at most `n` items of a value; 0 prints all")
	return storeCommand(e, cmd, func(ctx context.Context, s *session.Session, in noun.Input, args []string) error {
		if len(args) == 0 {
			return noun.FromList("store")(ctx, s, in)
		}
		if limit < 0 {
			return exit.Usagef("--items must be 0 or more")
		}
		v, err := readValue(ctx, s, valueRequest(in, http.MethodGet, args[0], ""), limit)
		if err != nil {
			return err
		}
		return printValue(s, v, limit)
	})
}

// readValue reads a value's pages: a whole string, else up to a number of items, or all if that is
// 0.
func readValue(ctx context.Context, s *session.Session, r session.Request, limit int) (storeValue, error) {
	var items []json.RawMessage
	var text strings.Builder
	if limit == 0 {
		limit = math.MaxInt
	}
	r.Query.Set("limit", strconv.Itoa(min(limit, noun.PageSize)))
	for {
		var v storeValue
		raw, err := s.API.Get(ctx, r.Path, r.Query)
		if err == nil {
			err = session.Decode(raw, &v)
		}
		if err != nil {
			return v, err
		}
		part, err := rawText(v.Value)
		if err != nil {
			return v, err
		}
		text.WriteString(part)
		items = append(items, v.Items...)
		if v.Next == "" || len(items) >= limit {
			v.Items = items[:min(len(items), limit)]
			v.Value = encodedText(v.Type, text.String())
			return v, nil
		}
		r.Query.Set("cursor", v.Next)
	}
}

// rawText returns the bytes of a text from the API: nil, text, or an object with base64.
func rawText(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case map[string]any:
		if text, ok := v["base64"].(string); ok {
			raw, err := base64.StdEncoding.DecodeString(text)
			return string(raw), err
		}
	}
	return "", fmt.Errorf("the server's response has a value that is not known")
}

// encodedText returns a string's value as the API writes it.
func encodedText(kind, text string) any {
	switch {
	case kind != "string":
		return nil
	case utf8.ValidString(text):
		return text
	}
	return map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(text))}
}

// printValue prints a string as it is, and another value as a table of its items.
func printValue(s *session.Session, v storeValue, limit int) error {
	switch {
	case !s.Printer.Tabular():
		v.Next = ""
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return s.Printer.Item(raw)
	case v.Type == "string":
		text, err := rawText(v.Value)
		if err != nil {
			return err
		}
		// A terminal gets text quoted that could change it.
		if !session.IsTerminal(s.Out) {
			_, err := io.WriteString(s.Out, text)
			return err
		}
		if output.Clean(text) != text {
			text = strconv.Quote(text)
		}
		_, err = fmt.Fprintln(s.Out, text)
		return err
	}
	list := s.Printer.List(itemColumns(v.Type))
	for _, item := range v.Items {
		if err := list.Add(item); err != nil {
			return err
		}
	}
	if err := list.Close(); err != nil {
		return err
	}
	if v.Next != "" {
		s.Note("Only the first %d are shown; --items 0 shows all.", limit)
	}
	return nil
}

func itemColumns(kind string) []output.Column {
	text := func(title, path string) output.Column {
		return output.Column{Title: title, Value: func(item map[string]any) any { return shownText(item[path]) }}
	}
	switch kind {
	case "hash":
		return []output.Column{text("FIELD", "field"), text("VALUE", "value")}
	case "list":
		return []output.Column{noun.Column("INDEX", "index"), text("VALUE", "value")}
	case "set":
		return []output.Column{text("MEMBER", "member")}
	case "zset":
		return []output.Column{noun.Column("SCORE", "score"), text("MEMBER", "member")}
	}
	return []output.Column{noun.Column("ID", "id"), {Title: "FIELDS", Value: shownFields}}
}

// shownText returns a text from the API for a table: it quotes bytes that are not UTF-8.
func shownText(value any) any {
	if _, isBytes := value.(map[string]any); !isBytes {
		return value
	}
	raw, err := rawText(value)
	if err != nil {
		return nil
	}
	return strconv.Quote(raw)
}

// shownFields returns the fields in a stream's entry as name=value.
func shownFields(item map[string]any) any {
	fields, _ := item["fields"].([]any)
	var pairs []string
	for _, f := range fields {
		one, _ := f.(map[string]any)
		pairs = append(pairs, fmt.Sprint(shownText(one["field"]))+"="+fmt.Sprint(shownText(one["value"])))
	}
	return strings.Join(pairs, " ")
}

// setFlags select the part of a value to set.
type setFlags struct {
	ttl, field, score string
	index             int64
	member, push      bool
}

func storeSet(e *session.Env) *cobra.Command {
	var flags setFlags
	cmd := &cobra.Command{
		Use:   "set STORE KEY [VALUE]",
		Short: "Set a string, or one item of a hash, list, set or sorted set",
		Long: `Set a string, or one item of another value. - or no VALUE reads it from standard input. A key keeps the time at
which it expires, unless --ttl says otherwise.

  steward kv set sessions greeting hello --ttl 1h
  steward kv set sessions photo < photo.png
  steward kv set sessions user:1 ada --field name
  steward kv set sessions jobs last --append
  steward kv set sessions jobs first --index 0
  steward kv set sessions tags red --member
  steward kv set sessions ranking ada --score 12.5`,
		Args: session.Args("STORE", "KEY", "[VALUE]"),
	}
	cmd.Flags().StringVar(&flags.ttl, "ttl", "", "`duration` after which the key expires, such as 90s, 12h or 30d, or never")
	cmd.Flags().StringVar(&flags.field, "field", "", "set this `field` of a hash")
	cmd.Flags().Int64Var(&flags.index, "index", 0, "replace the element of a list at this `position`")
	cmd.Flags().BoolVar(&flags.push, "append", false, "append the value to a list")
	cmd.Flags().BoolVar(&flags.member, "member", false, "add the value to a set")
	cmd.Flags().StringVar(&flags.score, "score", "", "add the value to a sorted set, with this `score`")
	return storeCommand(e, cmd, func(ctx context.Context, s *session.Session, in noun.Input, args []string) error {
		if err := checkSetFlags(cmd); err != nil {
			return err
		}
		value, err := readStoreValue(s, args[1:])
		if err != nil {
			return err
		}
		body := flags.body(cmd, value)
		if err := setTTL(body, flags.ttl); err != nil {
			return err
		}
		return sendValue(ctx, s, in, args[0], body)
	})
}

// checkSetFlags returns a usage error if flags belong to values of different types.
func checkSetFlags(cmd *cobra.Command) error {
	var given []string
	for _, name := range []string{"field", "index", "append", "member", "score"} {
		if cmd.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return exit.Usagef("%s cannot be used together", strings.Join(given, " and "))
	}
	return nil
}

// body returns the item that a value is set as.
func (f setFlags) body(cmd *cobra.Command, value string) map[string]any {
	text := encodedText("string", value)
	kind, item := "string", map[string]any{"value": text}
	switch {
	case cmd.Flags().Changed("field"):
		kind = "hash"
		item["field"] = encodedText("string", f.field)
	case cmd.Flags().Changed("index"):
		kind = "list"
		item["index"] = f.index
	case f.push:
		kind = "list"
	case f.member:
		kind, item = "set", map[string]any{"member": text}
	case cmd.Flags().Changed("score"):
		kind, item = "zset", map[string]any{"member": text, "score": f.score}
	}
	return map[string]any{"type": kind, "item": item}
}

// maxStoreValue bounds a value that we read. The API accepts less.
const maxStoreValue = 16 << 20

// readStoreValue returns the value from the arguments, or from standard input.
func readStoreValue(s *session.Session, args []string) (string, error) {
	if len(args) > 0 && args[0] != "-" {
		return args[0], nil
	}
	if len(args) == 0 && session.IsTerminal(s.In) {
		return "", exit.Usagef("name the value, or write it to standard input")
	}
	text, err := io.ReadAll(io.LimitReader(s.In, maxStoreValue))
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	return string(text), nil
}

// setTTL sets when a key expires, unless the text is empty.
func setTTL(body map[string]any, text string) error {
	switch text {
	case "":
		return nil
	case "never":
		body["ttl_ms"] = 0
		return nil
	}
	d, err := noun.Duration(text)
	if err != nil || d < time.Millisecond {
		return exit.Usagef("the time until a key expires must be a duration, such as 90s, 12h or 30d, or never")
	}
	body["ttl_ms"] = d.Milliseconds()
	return nil
}

func sendValue(ctx context.Context, s *session.Session, in noun.Input, key string, body map[string]any) error {
	r := valueRequest(in, http.MethodPut, key, "")
	r.Body = body
	res, err := s.API.Send(ctx, r)
	if err != nil {
		return err
	}
	return printHead(s, key, res.Body)
}

// printHead prints a key without its value.
func printHead(s *session.Session, key string, body json.RawMessage) error {
	var v storeValue
	if err := session.Decode(body, &v); err != nil {
		return err
	}
	raw, err := json.Marshal(struct {
		Key  any    `json:"key"`
		Type string `json:"type"`
		TTL  *int64 `json:"ttl_ms"`
		Size int64  `json:"size"`
	}{encodedText("string", key), v.Type, v.TTL, v.Size})
	if err != nil {
		return err
	}
	return s.Printer.Item(raw)
}

func storeDelete(e *session.Env) *cobra.Command {
	var item string
	cmd := &cobra.Command{
		Use:   "del STORE KEY…",
		Short: "Delete keys, or one item of a value",
		Long: `Delete keys, or one item of a value: a field of a hash, the element of a list at an index, a member of a set or
sorted set, or an entry of a stream.

  steward kv del sessions user:1 user:2
  steward kv del sessions cart:7 --item total`,
		Args: session.Args("STORE", "KEY…"),
	}
	cmd.Flags().StringVar(&item, "item", "", "delete this `item` of the value alone")
	return storeCommand(e, cmd, func(ctx context.Context, s *session.Session, in noun.Input, keys []string) error {
		what := "key " + strings.Join(keys, ", ")
		if item != "" {
			what = "item " + item + " of " + what
		}
		if err := s.Confirm(ctx, "Deleting "+output.Clean(what)+" of key-value store "+in.Path["store"]); err != nil {
			return err
		}
		for _, key := range slices.Compact(keys) {
			if _, err := s.API.Send(ctx, valueRequest(in, http.MethodDelete, key, item)); err != nil {
				return err
			}
		}
		return s.Printer.Text("Deleted %s.", output.Clean(what))
	})
}

func storeTTL(e *session.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ttl STORE KEY [DURATION]",
		Short: "Show when a key expires, or change it",
		Long: `Show when a key expires, or have it expire after a duration, such as 90s, 12h or 30d, or never.

  steward kv ttl sessions user:1
  steward kv ttl sessions user:1 30d
  steward kv ttl sessions user:1 never`,
		Args: session.Args("STORE", "KEY", "[DURATION]"),
	}
	return storeCommand(e, cmd, func(ctx context.Context, s *session.Session, in noun.Input, args []string) error {
		if len(args) > 1 {
			body := map[string]any{}
			if err := setTTL(body, args[1]); err != nil {
				return err
			}
			return sendValue(ctx, s, in, args[0], body)
		}
		r := valueRequest(in, http.MethodGet, args[0], "")
		r.Query.Set("limit", "1")
		raw, err := s.API.Get(ctx, r.Path, r.Query)
		if err != nil {
			return err
		}
		return printHead(s, args[0], raw)
	})
}
