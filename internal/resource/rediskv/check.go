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

// Check returns Unavailable if a server cannot be reached now. It returns another error if a server is
// too old, does not fit the admin URL's form, lets anyone in, or refuses commands that the engine needs.
func (e *Engine) Check(ctx context.Context) error {
	return e.do(ctx, "check", func(ctx context.Context) error { return e.each(ctx, e.checkServer) })
}

// fault says what is wrong with a server that could be reached.
type fault string

func (f fault) Error() string { return string(f) }

func (e *Engine) checkServer(ctx context.Context, server *redis.Client) error {
	info, err := serverInfo(ctx, server)
	if err != nil {
		return err
	}
	if !supported(info["redis_version"]) {
		return fault("version " + info["redis_version"] + ", expected 6.2 or later")
	}
	if info["cluster_enabled"] == "1" && e.address.form != cluster {
		return fault("a node of a Redis Cluster, expected a URL with redis+cluster:// or rediss+cluster://")
	}
	if info["role"] == "slave" && e.address.form == single {
		return errors.New("it is a replica now")
	}
	if err := checkRights(ctx, server, info["role"] == "slave"); err != nil {
		return err
	}
	return checkDefault(ctx, server)
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

// checkRights calls the commands that the engine needs, with a user and a key that do not exist. A
// replica may refuse commands on keys just because it is one.
func checkRights(ctx context.Context, server *redis.Client, replica bool) error {
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
		err := server.Do(ctx, command...).Err()
		switch {
		case err == nil || errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "MOVED"):
		case strings.HasPrefix(err.Error(), "NOPERM"):
			return fault(fmt.Sprintf("the user of the admin URL may not call %v %v, expected ~* +@all", command[0], command[1]))
		case unavailable(err) && !replica:
			return err
		}
	}
	return nil
}

// checkDefault returns an error if anyone can log in as the default user without a password, since stores
// would not be separate then.
func checkDefault(ctx context.Context, server *redis.Client) error {
	user, err := getUser(ctx, server, "default")
	if err != nil {
		return err
	}
	flags, _ := user["flags"].([]any)
	open := slices.Contains(flags, any("on")) && slices.Contains(flags, any("nopass"))
	if open && user["commands"] != "-@all" {
		return fault("the user default has no password: set requirepass, or ACL SETUSER default off")
	}
	return nil
}

// explain says which operation failed where. It returns Unavailable if a server cannot be reached or
// cannot answer now.
func (e *Engine) explain(what string, err error) error {
	var f fault
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return fmt.Errorf("%s: %w", e.address, err)
	case unavailable(err):
		return errs.Unavailablef(err, "%s cannot be used now", e.address)
	}
	return fmt.Errorf("%s: %s: %w", e.address, what, err)
}

// unavailable reports whether the connection failed, or the server will answer later.
func unavailable(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true
	}
	for _, later := range []string{"LOADING", "BUSY", "MASTERDOWN", "READONLY", "TRYAGAIN", "CLUSTERDOWN", "MOVED", "ASK", "ERR max number of clients"} {
		if strings.HasPrefix(answer.Error(), later) {
			return true
		}
	}
	return false
}
