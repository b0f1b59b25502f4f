package embedkv

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"steward/internal/redis"
	"steward/internal/sqlite"
)

// Stores used to be redka's SQLite files. We convert such a file when its store is opened, and then
// rename it.
const (
	redkaFile     = "store.db"
	convertedFile = "store.db.converted"
)

// convert creates a store from redka's file, if there is one. It can be repeated after a crash: until the
// file is renamed, nobody has written to the new store.
func (e *Engine) convert(id string, log *slog.Logger) error {
	path := filepath.Join(e.dir(id), redkaFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	log.Info("convert a key-value store")
	dir := redis.Dir(e.dir(id))
	if err := importFile(dir, path); err != nil {
		return err
	}
	if err := dir.Rename(redkaFile, convertedFile); err != nil {
		return fmt.Errorf("rename the file of redka: %w", err)
	}
	return dir.Sync()
}

// importFile creates a store from redka's file. It replaces one that an earlier attempt has left.
func importFile(dir redis.FS, path string) (err error) {
	db, err := sqlite.Open(path, nil)
	if err != nil {
		return fmt.Errorf("open the file of redka: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return redis.Import(dir, func(add func(...string) error) error {
		for _, table := range redkaTables {
			if err := importTable(db, table, add); err != nil {
				return fmt.Errorf("read %s: %w", table.command, err)
			}
		}
		return importExpiry(db, add)
	})
}

// redkaTable is a table with redka's values.
type redkaTable struct {
	// command is the Redis command that adds a row's values to a key.
	command string
	// query selects rows, grouped by key: the key and one or two values.
	query string
}

// redkaTables has a table for each key type, 1 to 5.
var redkaTables = []redkaTable{
	{"set", `SELECT CAST(key AS BLOB), value, NULL FROM rkey JOIN rstring ON kid = id WHERE type = 1 ORDER BY id`},
	{"rpush", `SELECT CAST(key AS BLOB), elem, NULL FROM rkey JOIN rlist ON kid = id WHERE type = 2 ORDER BY id, pos`},
	{"sadd", `SELECT CAST(key AS BLOB), elem, NULL FROM rkey JOIN rset ON kid = id WHERE type = 3 ORDER BY id, rset.rowid`},
	{"hset", `SELECT CAST(key AS BLOB), CAST(field AS BLOB), value FROM rkey JOIN rhash ON kid = id WHERE type = 4
		ORDER BY id, rhash.rowid`},
	{"zadd", `SELECT CAST(key AS BLOB), score, elem FROM rkey JOIN rzset ON kid = id WHERE type = 5 ORDER BY id, rzset.rowid`},
}

// importTable adds a table's values.
func importTable(db *sqlite.Conn, table redkaTable, add func(...string) error) error {
	rows, err := db.Query(table.query, nil, func(err error) error { return err })
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key, first, second []byte
		args := []string{table.command}
		if table.command == "zadd" {
			var score float64
			if err := rows.Scan(&key, &score, &second); err != nil {
				return err
			}
			first = strconv.AppendFloat(nil, score, 'g', -1, 64)
		} else if err := rows.Scan(&key, &first, &second); err != nil {
			return err
		}
		args = append(args, string(key), string(first))
		if table.command == "hset" || table.command == "zadd" {
			args = append(args, string(second))
		}
		if err := add(args...); err != nil {
			return err
		}
	}
	return rows.Err()
}

// importExpiry sets the times when keys expire.
func importExpiry(db *sqlite.Conn, add func(...string) error) error {
	rows, err := db.Query(`SELECT CAST(key AS BLOB), etime FROM rkey WHERE etime IS NOT NULL`, nil, func(err error) error { return err })
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key []byte
		var at int64
		if err := rows.Scan(&key, &at); err != nil {
			return err
		}
		if err := add("pexpireat", string(key), strconv.FormatInt(at, 10)); err != nil {
			return err
		}
	}
	return rows.Err()
}
