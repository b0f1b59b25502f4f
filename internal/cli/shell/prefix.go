package shell

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// keyPrefix adds the prefix that a store's keys have on a Redis server which it shares with others,
// so that users type keys as they would on their own server.
type keyPrefix struct {
	prefix string
	// client tells us which arguments are keys. It has its own connection, because in a transaction
	// the question would become one of its commands.
	client *redis.Client
}

// add returns a command with the prefix before its keys and channels.
func (p keyPrefix) add(ctx context.Context, words []string) ([]string, error) {
	with := slices.Clone(words)
	if name := strings.ToLower(words[0]); (name == "publish" || name == "spublish") && len(words) > 1 {
		with[1] = p.before(words[1])
		return with, nil
	}
	keys, err := p.keys(ctx, words)
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(words); i++ {
		if !slices.Contains(keys, words[i]) {
			continue
		}
		isKey, err := p.isKey(ctx, words, i)
		if err != nil {
			return nil, err
		}
		if isKey {
			with[i] = p.before(words[i])
		}
	}
	return with, nil
}

// before returns a key with the prefix, which it may have already: lists of keys show it.
func (p keyPrefix) before(key string) string {
	return p.prefix + strings.TrimPrefix(key, p.prefix)
}

// keys returns a command's keys. It returns none if the command is wrong.
func (p keyPrefix) keys(ctx context.Context, words []string) ([]string, error) {
	args := []any{"COMMAND", "GETKEYS"}
	for _, w := range words {
		args = append(args, w)
	}
	keys, err := p.client.Do(ctx, args...).StringSlice()
	var refused redis.Error
	if errors.As(err, &refused) {
		return nil, nil
	}
	return keys, err
}

// isKey reports whether an argument is a key, and not another argument with the same text.
func (p keyPrefix) isKey(ctx context.Context, words []string, i int) (bool, error) {
	const probe = "\x00probe"
	probed := slices.Clone(words)
	probed[i] = probe
	keys, err := p.keys(ctx, probed)
	return slices.Contains(keys, probe), err
}

// strip returns a reply with the prefix removed from the command's keys.
func (p keyPrefix) strip(reply any, sent []string) any {
	switch v := reply.(type) {
	case string:
		if slices.Contains(sent, v) {
			return strings.TrimPrefix(v, p.prefix)
		}
	case []any:
		for i := range v {
			v[i] = p.strip(v[i], sent)
		}
	case map[any]any:
		out := map[any]any{}
		for key, value := range v {
			out[p.strip(key, sent)] = p.strip(value, sent)
		}
		return out
	}
	return reply
}
