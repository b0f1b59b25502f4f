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

// Stores were SQLite files of redka once. Such a file is converted when its store is opened, and then has
// another name.
const (
	redkaFile     = "store.db"
	convertedFile = "store.db.converted"
)

// convert makes the store of a directory from the file of redka, if there is one. It may be repeated after a
// crash: while the file has its name, nobody has written to the new store.
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

// importFile makes a store from a file of redka, in place of one that was made before.
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

// redkaTable is a table of redka's values.
type redkaTable struct {
	// command adds the values of a row to a key.
	command string
	// query selects keys, in groups, and a value or two.
	query string
}

// redkaTables are the tables of values. Keys have the types 1 to 5.
var redkaTables = []redkaTable{
	{"set", `SELECT CAST(key AS BLOB), value, NULL FROM rkey JOIN rstring ON kid = id WHERE type = 1 ORDER BY id`},
	{"rpush", `SELECT CAST(key AS BLOB), elem, NULL FROM rkey JOIN rlist ON kid = id WHERE type = 2 ORDER BY id, pos`},
	{"sadd", `SELECT CAST(key AS BLOB), elem, NULL FROM rkey JOIN rset ON kid = id WHERE type = 3 ORDER BY id, rset.rowid`},
	{"hset", `SELECT CAST(key AS BLOB), CAST(field AS BLOB), value FROM rkey JOIN rhash ON kid = id WHERE type = 4
		ORDER BY id, rhash.rowid`},
	{"zadd", `SELECT CAST(key AS BLOB), score, elem FROM rkey JOIN rzset ON kid = id WHERE type = 5 ORDER BY id, rzset.rowid`},
}

// importTable adds the values of a table.
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

// importExpiry adds when keys expire.
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
