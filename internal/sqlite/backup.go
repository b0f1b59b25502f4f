package sqlite

import (
	"errors"
	"fmt"

	driver "zombiezen.com/go/sqlite"
)

// Backup copies a database to a new file, as it is at one moment. Others may write to the database
// meanwhile, if it has a write-ahead log. The copy is not synced.
func Backup(from, to string) error {
	source, err := driver.OpenConn(from, driver.OpenReadWrite)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer func() { _ = source.Close() }() // we wrote nothing
	source.SetBusyTimeout(busyTimeout)
	copied, err := open(to, driver.OpenReadWrite|driver.OpenCreate, []string{"journal_mode(OFF)", "synchronous(OFF)"})
	if err != nil {
		return fmt.Errorf("create the copy: %w", err)
	}
	return errors.Join(copyPages(copied.Conn, source), copied.Close())
}

func copyPages(to, from *driver.Conn) error {
	b, err := driver.NewBackup(to, "main", from, "main")
	if err != nil {
		return fmt.Errorf("begin the copy: %w", err)
	}
	_, err = b.Step(-1)
	if err := errors.Join(err, b.Close()); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return nil
}
