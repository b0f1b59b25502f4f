package rediskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"steward/internal/errs"
)

// Check returns Unavailable if the server cannot be reached now, and another error if it is too old,
// is part of a cluster, lets anyone in, or refuses what the engine needs.
func (e *Engine) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	info, err := e.info(ctx)
	if err != nil {
		return e.explain("INFO", err)
	}
	if !supported(info["redis_version"]) {
		return fmt.Errorf("%s: version %s, expected 6.2 or later", e.describe(), info["redis_version"])
	}
	if info["cluster_enabled"] == "1" {
		return fmt.Errorf("%s: expected a server that is not part of a Redis Cluster, which keeps users on each node", e.describe())
	}
	if info["role"] == "slave" {
		return errs.Unavailablef(nil, "%s is a replica now", e.describe())
	}
	if err := e.checkRights(ctx); err != nil {
		return err
	}
	return e.checkDefault(ctx)
}

// supported reports whether a version is 6.2 or later.
func supported(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, err := strconv.Atoi(major)
	if err != nil {
		return false
	}
	y, err := strconv.Atoi(minor)
	return err == nil && (x > 6 || x == 6 && y >= 2)
}

// checkRights calls the commands that the engine needs, on a user and a key that do not exist.
func (e *Engine) checkRights(ctx context.Context) error {
	const absent = "kv_absent"
	for _, command := range [][]any{
		{"ACL", "USERS"},
		{"ACL", "GETUSER", "default"},
		{"ACL", "DELUSER", absent},
		{"ACL", "SETUSER", absent, "off", "invalid rule"},
		{"CLIENT", "KILL", "USER", absent},
		{"COMMAND", "COUNT"},
		{"SCAN", "0", "COUNT", "1"},
		{"UNLINK", prefix(absent)},
		{"TYPE", prefix(absent)},
		{"PTTL", prefix(absent)},
		{"GETRANGE", prefix(absent), "0", "0"},
		{"STRLEN", prefix(absent)},
	} {
		err := e.admin.Do(ctx, command...).Err()
		switch {
		case err == nil || errors.Is(err, redis.Nil):
		case strings.HasPrefix(err.Error(), "NOPERM"):
			return fmt.Errorf("%s: the user of the admin URL may not call %v %v, expected ~* +@all", e.describe(), command[0], command[1])
		case unavailable(err):
			return e.explain("check", err)
		}
	}
	return nil
}

// checkDefault returns an error if everyone can log in as the default user without a password, since
// then stores are not separate.
func (e *Engine) checkDefault(ctx context.Context) error {
	fields, err := e.admin.Do(ctx, "ACL", "GETUSER", "default").Slice()
	if err != nil {
		return e.explain("ACL GETUSER", err)
	}
	user := map[string]any{}
	for i := 0; i+1 < len(fields); i += 2 {
		user[fmt.Sprint(fields[i])] = fields[i+1]
	}
	flags, _ := user["flags"].([]any)
	open := slices.Contains(flags, any("on")) && slices.Contains(flags, any("nopass"))
	if open && user["commands"] != "-@all" {
		return fmt.Errorf("%s: the user default has no password: set requirepass, or ACL SETUSER default off", e.describe())
	}
	return nil
}

// explain returns an error that says what failed on which server: Unavailable if the server cannot
// be reached or cannot answer now.
func (e *Engine) explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case unavailable(err):
		return errs.Unavailablef(err, "%s cannot be used now", e.describe())
	}
	return fmt.Errorf("%s: %s: %w", e.describe(), what, err)
}

// unavailable reports whether an error is one of the connection, or of a server that will answer
// later.
func unavailable(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true
	}
	for _, later := range []string{"LOADING", "BUSY", "MASTERDOWN", "READONLY", "TRYAGAIN", "ERR max number of clients"} {
		if strings.HasPrefix(answer.Error(), later) {
			return true
		}
	}
	return false
}
