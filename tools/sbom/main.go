// Command sbom writes a binary's bill of materials in the CycloneDX format: the Go toolchain and the
// modules in the binary. It imports no package from Steward.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

type document struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Timestamp time.Time `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

func main() {
	version := flag.String("version", "dev", "version of the binary")
	epoch := flag.Int64("epoch", 0, "time of the document, in seconds since 1970")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: sbom [-version V] [-epoch SECONDS] BINARY")
	}
	info, err := buildinfo.ReadFile(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(describe(info, *version, time.Unix(*epoch, 0).UTC())); err != nil {
		log.Fatal(err)
	}
}

func describe(info *buildinfo.BuildInfo, version string, at time.Time) document {
	d := document{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata:   metadata{Timestamp: at, Component: newComponent("application", info.Main.Path, version)},
		Components: []component{newComponent("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))},
	}
	for _, m := range info.Deps {
		m = actual(m)
		d.Components = append(d.Components, newComponent("library", m.Path, m.Version))
	}
	return d
}

// actual returns the module that replaces m, or m itself.
func actual(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

func newComponent(kind, name, version string) component {
	url := fmt.Sprintf("pkg:golang/%s@%s", name, version)
	return component{Type: kind, Ref: url, Name: name, Version: version, PURL: url}
}
