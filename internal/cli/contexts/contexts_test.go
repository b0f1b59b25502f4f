package contexts_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/internal/cli/contexts"
)

func TestConcurrentUpdatesAreAllKept(t *testing.T) {
	file := contexts.File{Path: filepath.Join(t.TempDir(), "steward", "contexts.json")}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			err := file.Update(func(all *contexts.All) error {
				all.Contexts[fmt.Sprint(i)] = contexts.Context{URL: "http://h"}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	all, err := file.Read()
	if err != nil || len(all.Contexts) != 20 {
		t.Errorf("%d contexts, %v", len(all.Contexts), err)
	}
	info, err := os.Stat(file.Path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(file.Path))
	if err != nil || len(entries) != 2 { // the file and its lock
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestFailedUpdateChangesNothing(t *testing.T) {
	file := contexts.File{Path: filepath.Join(t.TempDir(), "contexts.json")}
	refused := errors.New("refused")
	err := file.Update(func(all *contexts.All) error {
		all.Current = "x"
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if all, err := file.Read(); err != nil || all.Current != "" {
		t.Errorf("%v, %v", all, err)
	}
}

func TestBrokenFileIsReported(t *testing.T) {
	file := contexts.File{Path: filepath.Join(t.TempDir(), "contexts.json")}
	if err := os.WriteFile(file.Path, []byte(`{"contexts":`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := file.Read()
	if err == nil || !strings.Contains(err.Error(), file.Path+" is not valid JSON") {
		t.Errorf("got %v", err)
	}
}

func TestFileIsInTheConfigurationDirectory(t *testing.T) {
	file, err := contexts.Default(func(string) string { return "/home/ada/conf" })
	if err != nil || file.Path != "/home/ada/conf/steward/contexts.json" {
		t.Errorf("%v, %v", file, err)
	}
}
