// Command dependencies builds Steward from an empty cache, and prints a Markdown table with the cost of
// each module that it imports: packages, bytes in the binary and seconds of CPU. It takes as long as a
// first build. You find a result in docs/decisions. It imports no package from Steward.
package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const program = "./cmd/steward"

// graph holds the program's packages by import path.
type graph map[string]*goPackage

// goPackage is a package as `go list` describes it, with its costs.
type goPackage struct {
	ImportPath string
	Standard   bool
	Module     *struct {
		Path string
		Main bool
	}
	Imports []string

	bytes int
	cpu   time.Duration // its compiler's
}

func main() {
	log.SetFlags(0)
	dir, err := os.MkdirTemp("", "dependencies-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary, actions := filepath.Join(dir, "steward"), filepath.Join(dir, "actions.json")
	if err := os.Setenv("GOCACHE", filepath.Join(dir, "cache")); err != nil {
		log.Fatal(err)
	}
	run("go", "build", "-trimpath", "-debug-actiongraph="+actions, "-o", binary, program)

	g := listed()
	total := g.addCPU(actions)
	g.addBytes(binary)
	g.print(total)
}

func run(name string, args ...string) []byte {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		log.Fatalf("%s: %v", strings.Join(cmd.Args, " "), err)
	}
	return out
}

func listed() graph {
	g := graph{}
	for list := json.NewDecoder(bytes.NewReader(run("go", "list", "-deps", "-json=ImportPath,Standard,Module,Imports", program))); list.More(); {
		p := &goPackage{}
		if err := list.Decode(p); err != nil {
			log.Fatal(err)
		}
		g[p.ImportPath] = p
	}
	return g
}

// addCPU adds each package's compile time, and returns the whole build's.
func (g graph) addCPU(name string) (total time.Duration) {
	content, err := os.ReadFile(name)
	if err != nil {
		log.Fatal(err)
	}
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys time.Duration
	}
	if err := json.Unmarshal(content, &actions); err != nil {
		log.Fatal(err)
	}
	for _, a := range actions {
		total += a.CmdUser + a.CmdSys
		if p := g[a.Package]; p != nil && a.Mode == "build" {
			p.cpu += a.CmdUser + a.CmdSys
		}
	}
	return total
}

// addBytes adds the sizes of a binary's symbols to their packages. Type descriptions and the runtime's
// tables belong to no package.
func (g graph) addBytes(binary string) {
	f, err := elf.Open(binary)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	symbols, err := f.Symbols()
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range symbols {
		if s.Section >= elf.SectionIndex(len(f.Sections)) || f.Sections[s.Section].Type == elf.SHT_NOBITS {
			continue // variables without a value are not in the file
		}
		name := strings.TrimPrefix(s.Name, "go:itab.*")
		generic := strings.IndexAny(name+"[", "[(") // the rest may name other packages
		slash := strings.LastIndex(name[:generic], "/") + 1
		path, _, _ := strings.Cut(name[slash:], ".")
		if p := g[strings.ReplaceAll(name[:slash]+path, "%2e", ".")]; p != nil {
			p.bytes += int(s.Size)
		}
	}
}

// module returns the path of a package's module, or "" for the standard library and the main module.
func (g graph) module(path string) string {
	if p := g[path]; p != nil && p.Module != nil && !p.Module.Main {
		return p.Module.Path
	}
	return ""
}

func (g graph) own(path string) bool {
	p := g[path]
	return p != nil && p.Module != nil && p.Module.Main
}

// visit adds a package and everything that it needs to found. It skips Steward's own imports from the
// module without.
func (g graph) visit(path, without string, found map[string]bool) {
	if found[path] || g[path] == nil {
		return
	}
	found[path] = true
	for _, to := range g[path].Imports {
		if !g.own(path) || g.module(to) != without {
			g.visit(to, without, found)
		}
	}
}

// linked returns the packages that the program would link if Steward itself did not import a module.
func (g graph) linked(without string) map[string]bool {
	found := map[string]bool{}
	for path := range g {
		if g.own(path) && strings.HasSuffix(path, strings.TrimPrefix(program, ".")) {
			g.visit(path, without, found)
		}
	}
	return found
}

// needed counts the packages that Steward's imports from a module need, including themselves.
func (g graph) needed(module string) (n int) {
	found := map[string]bool{}
	for path, p := range g {
		for _, to := range p.Imports {
			if g.own(path) && g.module(to) == module {
				g.visit(to, "", found)
			}
		}
	}
	for path := range found {
		if !g[path].Standard {
			n++
		}
	}
	return n
}

type cost struct {
	name     string
	packages int
	needed   string // packages, including ones that others need too
	bytes    int
	cpu      time.Duration
}

func (c *cost) add(p *goPackage) {
	c.packages++
	c.bytes += p.bytes
	c.cpu += p.cpu
}

func (c *cost) print() {
	fmt.Printf("| %s | %d | %s | %.1f | %.1f |\n", c.name, c.packages, c.needed, float64(c.bytes)/1e6, c.cpu.Seconds())
}

func (g graph) print(total time.Duration) {
	standard, own := &cost{name: "the standard library"}, &cost{name: "Steward"}
	modules := map[string]*cost{}
	all := &cost{name: "all modules"}
	shared := &cost{name: "brought by several modules"}
	for path, p := range g {
		switch {
		case p.Standard:
			standard.add(p)
		case g.own(path):
			own.add(p)
			for _, to := range p.Imports {
				if m := g.module(to); m != "" {
					modules[m] = &cost{name: m}
				}
			}
		default:
			all.add(p)
			shared.add(p)
		}
	}
	for m, c := range modules {
		c.needed = strconv.Itoa(g.needed(m))
		kept := g.linked(m)
		for path, p := range g {
			if !kept[path] && !p.Standard {
				c.add(p)
			}
		}
		shared.packages -= c.packages
		shared.bytes -= c.bytes
		shared.cpu -= c.cpu
	}
	rows := make([]*cost, 0, len(modules))
	for _, c := range modules {
		rows = append(rows, c)
	}
	slices.SortFunc(rows, func(a, b *cost) int {
		return cmp.Or(cmp.Compare(b.packages, a.packages), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name))
	})
	fmt.Print("| module | packages | with shared ones | MB | CPU seconds |\n|---|--:|--:|--:|--:|\n")
	for _, c := range append(rows, shared, all, own, standard) {
		c.print()
	}
	fmt.Printf("\nThe build took %.0f s of CPU with the linker.\n", total.Seconds())
}
