package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// reportStatements prints which functions ran SQL on one database only. It compares functions, because a
// statement's text often depends on the database.
func reportStatements(dir string) error {
	sqlite, err := readStatements(filepath.Join(dir, "sqlite"))
	if err != nil {
		return err
	}
	postgres, err := readStatements(filepath.Join(dir, "postgres"))
	if err != nil {
		return err
	}
	both := 0
	fmt.Println()
	for _, function := range slices.Sorted(maps.Keys(sqlite)) {
		if postgres[function] {
			both++
		} else {
			fmt.Println("ran SQL on SQLite only:", function)
		}
	}
	for _, function := range slices.Sorted(maps.Keys(postgres)) {
		if !sqlite[function] {
			fmt.Println("ran SQL on PostgreSQL only:", function)
		}
	}
	fmt.Printf("%d functions ran their SQL on both databases\n", both)
	return nil
}

// readStatements returns the functions in a log from package dbtest.
func readStatements(path string) (map[string]bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	found := map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		place, _, _ := strings.Cut(lines.Text(), "\t")
		function, _, _ := strings.Cut(place, ":")
		found[function] = true
	}
	return found, lines.Err()
}
