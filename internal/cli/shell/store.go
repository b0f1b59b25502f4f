package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/session"
)

// Store returns the command that runs Redis commands on a key-value store.
func Store(e *session.Env) *cobra.Command {
	var region string
	v := noun.Verb{Route: "GET /resource/{org}/{region}/{store}"}
	cmd := &cobra.Command{
		Use:   "cli STORE [COMMAND …]",
		Short: "Run Redis commands on a key-value store",
		Long: `Run Redis commands on a key-value store, over the Redis protocol with the credentials of the store: the
command of the arguments, else those that are typed or piped into standard input. Quotes keep spaces
together. quit leaves, as Ctrl-D does. If the store is on a Redis server with others, the prefix of its keys
is added to keys and channels; patterns and the keys in scripts are sent as they are.

  steward kv cli sessions
  steward kv cli sessions SET greeting 'hello world'
  echo 'GET greeting' | steward kv cli sessions`,
		Args: session.Args("STORE", "[COMMAND …]"),
		RunE: e.Command(func(ctx context.Context, s *session.Session, args []string) error {
			in, err := noun.NewInput(ctx, s, v, args[:1], region)
			if err != nil {
				return err
			}
			k, err := openStore(ctx, s, in)
			if err != nil {
				return err
			}
			defer k.close()
			if len(args) > 1 {
				return k.run(ctx, args[1:])
			}
			return k.loop(ctx, args[0])
		}),
		ValidArgsFunction: noun.CompleteArgs(e, v),
	}
	cmd.Flags().SetInterspersed(false) // flags in Redis commands are not ours
	noun.AddRegion(e, cmd, &region, v)
	return cmd
}

type storeShell struct {
	*session.Session
	client *redis.Client
	prefix *keyPrefix // nil if the keys have none
}

// openStore connects to a store with its own credentials.
func openStore(ctx context.Context, s *session.Session, in noun.Input) (*storeShell, error) {
	e, err := findEntry(ctx, s, "store", "REDIS_URL", in)
	if err != nil {
		return nil, err
	}
	options, err := redis.ParseURL(e.Env["REDIS_URL"])
	if err != nil {
		return nil, fmt.Errorf("the server names no Redis URL that can be used: %w", err)
	}
	options.DisableIdentity = true
	options.PoolSize = 1 // MULTI, SELECT and the like must hold for later commands
	options.MaxRetries = -1
	// It would greet a server with a command that the store's user may not call.
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	k := &storeShell{Session: s, client: redis.NewClient(options)}
	if prefix := e.Env["REDIS_KEY_PREFIX"]; prefix != "" {
		k.prefix = &keyPrefix{prefix, redis.NewClient(options)}
	}
	return k, nil
}

// close closes the connections. Nothing is lost if that fails.
func (k *storeShell) close() {
	_ = k.client.Close()
	if k.prefix != nil {
		_ = k.prefix.client.Close()
	}
}

func (k *storeShell) loop(ctx context.Context, name string) error {
	p := newPrompt(k.Env)
	err := p.each(ctx, name, func(text string) (lines []string, rest string) {
		return strings.Split(text, "\n"), ""
	}, func(statement string) error {
		words, err := splitWords(statement)
		if err != nil {
			return err
		}
		if len(words) == 1 && (strings.EqualFold(words[0], "quit") || strings.EqualFold(words[0], "exit")) {
			return errQuit
		}
		return k.run(ctx, words)
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (k *storeShell) run(ctx context.Context, words []string) error {
	reply, err := k.send(ctx, words)
	var refused redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		reply = nil
	case errors.As(err, &refused):
		return &exit.Error{Code: exit.Failed, Message: "(error) " + refused.Error(), Cause: err}
	case err != nil:
		return session.Unreachable(err, "the key-value store")
	}
	if k.Printer.Tabular() {
		_, err := fmt.Fprintln(k.Out, strings.Join(k.replyLines(reply), "\n"))
		return err
	}
	raw, err := json.Marshal(encodable(reply))
	if err != nil {
		return fmt.Errorf("encode the reply: %w", err)
	}
	return k.Printer.Item(raw)
}

func (k *storeShell) send(ctx context.Context, words []string) (any, error) {
	if k.prefix == nil {
		return k.do(ctx, words)
	}
	sent, err := k.prefix.add(ctx, words)
	if err != nil {
		return nil, err
	}
	reply, err := k.do(ctx, sent)
	return k.prefix.strip(reply, sent), err
}

func (k *storeShell) do(ctx context.Context, words []string) (any, error) {
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	return k.client.Do(ctx, args...).Result()
}

// replyLines returns a reply as people read it: texts are quoted on a terminal, so that no reply can
// change it, and plain elsewhere.
func (k *storeShell) replyLines(reply any) []string {
	quote := session.IsTerminal(k.Out)
	switch v := reply.(type) {
	case nil:
		return []string{"(nil)"}
	case int64:
		if quote {
			return []string{"(integer) " + strconv.FormatInt(v, 10)}
		}
		return []string{strconv.FormatInt(v, 10)}
	case string:
		if quote && v != "OK" && v != "PONG" {
			return []string{strconv.Quote(v)}
		}
		return []string{v}
	case []any:
		return k.arrayLines(v)
	case map[any]any:
		var flat []any
		for key, value := range v {
			flat = append(flat, key, value)
		}
		return k.arrayLines(flat)
	case error:
		return []string{"(error) " + v.Error()}
	}
	return []string{fmt.Sprint(reply)}
}

func (k *storeShell) arrayLines(values []any) (lines []string) {
	if len(values) == 0 {
		return []string{"(empty)"}
	}
	for i, value := range values {
		number := fmt.Sprintf("%d) ", i+1)
		for j, line := range k.replyLines(value) {
			if j > 0 {
				number = strings.Repeat(" ", len(number))
			}
			lines = append(lines, number+line)
		}
	}
	return lines
}

// encodable returns a reply that can be encoded as JSON.
func encodable(reply any) any {
	switch v := reply.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = encodable(v[i])
		}
		return out
	case map[any]any:
		out := map[string]any{}
		for key, value := range v {
			out[fmt.Sprint(key)] = encodable(value)
		}
		return out
	case error:
		return map[string]string{"error": v.Error()}
	}
	return reply
}

// splitWords splits a line into words. Single quotes keep everything, double quotes understand Go's
// escapes, which include Redis's.
func splitWords(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeft(line, " \t\r\n")
		if line == "" {
			return words, nil
		}
		word, rest, err := nextWord(line)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
		line = rest
	}
}

func nextWord(line string) (word, rest string, err error) {
	switch line[0] {
	case '\'':
		word, rest, ok := strings.Cut(line[1:], "'")
		if !ok {
			return "", "", exit.Usagef("a quote is missing at the end")
		}
		return word, rest, nil
	case '"':
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return "", "", exit.Usagef("a quote is missing at the end, or an escape is wrong")
		}
		word, err := strconv.Unquote(quoted)
		return word, line[len(quoted):], err
	}
	end := strings.IndexAny(line, " \t\r\n")
	if end < 0 {
		end = len(line)
	}
	return line[:end], line[end:], nil
}
