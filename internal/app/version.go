package app

import (
	"cmp"
	"runtime/debug"
)

// version is set with `go build -ldflags "-X steward/internal/app.version=v1.2.3"`.
var version string

// Version returns the version of this binary: as set by the build, else as Go derived it from the
// repository, else "dev".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return "dev"
	}
	return cmp.Or(info.Main.Version, "dev")
}
