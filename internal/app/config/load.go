package config

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"steward/internal/cli/session"
	"steward/internal/errs"
	"steward/internal/seal"
)

// Load returns the configuration from flags (those that were set, by name without dashes), else the
// environment (as os.Environ returns it), else the YAML file, else the defaults. An empty value
// counts as given: an empty STEWARD_MASTER_KEY is more likely a secret that failed to mount than a
// request for a new key.
//
// The error is an errs.Invalid with every fault. It names settings and never contains values.
func Load(flags map[string]string, environ []string) (Config, error) {
	c, l := load(flags, environ)
	return c, l.err()
}

func load(flags map[string]string, environ []string) (Config, *loader) {
	c := Config{Regions: []Region{newRegion("local", "This machine")}}
	l := &loader{
		settings: settings(&c), flags: flags, env: variables(environ),
		file: map[string]input{}, sources: map[string]string{}, texts: map[string]string{},
	}
	l.checkVariables()
	l.readFile(&c)
	for _, s := range l.settings {
		l.apply(s)
	}
	_, c.ListenGiven = l.texts["listen"]
	l.checkPairs()
	l.checkTLS(&c)
	l.checkInternal(&c)
	return c, l
}

type loader struct {
	settings []setting
	flags    map[string]string
	env      map[string]string
	file     map[string]input  // by key
	sources  map[string]string // name → source, if it was given
	texts    map[string]string // name → text, if it was given
	regions  string            // "" if no regions were given
	faults   errs.Faults
}

// input is a setting's text, and the name under which the user gave it.
type input struct{ source, text string }

func (l *loader) err() error {
	err := l.faults.Err()
	if e, ok := errors.AsType[*errs.Error](err); ok {
		e.Message = "invalid configuration"
	}
	return err
}

// apply parses the setting's input or default.
func (l *loader) apply(s setting) {
	in, ok := l.find(s)
	switch {
	case ok:
		l.sources[s.name] = in.source
		l.texts[s.name] = in.text
	case s.value == "":
		return
	default:
		in = input{"default of " + s.name, s.value}
	}
	if err := s.set(in.text); err != nil {
		l.faults.Add(in.source, "%v", err)
	}
}

// find returns the setting's input with the highest precedence.
func (l *loader) find(s setting) (input, bool) {
	if text, ok := l.flags[s.name]; ok {
		return input{"--" + s.name, text}, true
	}
	if text, ok := l.env[s.env()]; ok {
		return input{s.env(), text}, true
	}
	if s.kind == secret {
		return l.findFile(s)
	}
	in, ok := l.file[s.key()]
	return in, ok
}

// findFile reads a secret from the file whose path is in the environment or in the YAML file.
func (l *loader) findFile(s setting) (input, bool) {
	path, ok := l.file[s.fileKey()]
	if text, found := l.env[s.env()+envFile]; found {
		path = input{s.env() + envFile, text}
		ok = true
	}
	if !ok {
		return input{}, false
	}
	read := os.ReadFile
	if s.name == "master-key" || s.name == "old-master-keys" {
		read = seal.ReadFile // refuses a file that others can read
	}
	content, err := read(path.text)
	if err != nil {
		l.faults.Add(path.source, "must be the path of a readable file: %v", withoutPath(err))
		return input{}, false
	}
	return input{path.source, strings.TrimRight(string(content), "\r\n")}, true
}

// withoutPath returns an error without its path, which is a secret if somebody mistook
// STEWARD_X_FILE for STEWARD_X.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// EnvBackupPassphrase is the variable with the backups' passphrase. Only commands read it, no
// server.
const EnvBackupPassphrase = "STEWARD_BACKUP_PASSPHRASE"

// checkVariables refuses environment variables that are not settings, and secrets given twice.
func (l *loader) checkVariables() {
	var known []string
	for _, s := range l.settings {
		known = append(known, s.env())
		if s.kind == secret {
			known = append(known, s.env()+envFile)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		l.faults.Check(slices.Contains(known, name), name, "is not a setting%s", suggestion(name, known, serveHelp))
	}
	for _, s := range l.settings {
		_, value := l.env[s.env()]
		_, path := l.env[s.env()+envFile]
		l.faults.Check(s.kind != secret || !value || !path,
			s.env()+envFile, "must not be set together with %s", s.env())
	}
}

// kubernetes matches the variables that Kubernetes adds for a Service named `steward` or
// `steward-…`.
var kubernetes = regexp.MustCompile(
	`^STEWARD_([^=]*_)?(SERVICE_HOST=|SERVICE_PORT(_[^=]*)?=|PORT_\d+_(TCP|UDP|SCTP)(_[^=]*)?=|PORT=(tcp|udp|sctp)://)`)

// variables returns the environment variables that are meant as settings: it leaves out those for
// client commands, tests and Kubernetes.
func variables(environ []string) map[string]string {
	env := map[string]string{}
	for _, line := range environ {
		name, text, _ := strings.Cut(line, "=")
		ours := strings.HasPrefix(name, envPrefix) && !strings.HasPrefix(name, envPrefix+"TEST_") &&
			name != session.EnvURL && name != session.EnvKey && name != EnvBackupPassphrase
		if ours && !kubernetes.MatchString(line) {
			env[name] = text
		}
	}
	return env
}

// readFile reads the YAML file, if one is named.
func (l *loader) readFile(c *Config) {
	i := slices.IndexFunc(l.settings, func(s setting) bool { return s.name == "config" })
	path, ok := l.find(l.settings[i])
	if !ok || path.text == "" { // apply refuses an empty path
		return
	}
	content, err := os.ReadFile(path.text)
	if err != nil {
		l.faults.Add(path.source, "must be the path of a readable file: %v", withoutPath(err))
		return
	}
	file := yamlFile{name: filepath.Base(path.text), faults: &l.faults}
	file.entries(file.parse(content), "", func(key string, value *yaml.Node) { l.readEntry(c, file, key, value) })
}

// readEntry reads one entry in the YAML file.
func (l *loader) readEntry(c *Config, file yamlFile, key string, value *yaml.Node) {
	if key == regionsKey {
		if regions := file.regions(value); len(regions) > 0 {
			c.Regions = regions
			l.regions = file.source(key, value)
		}
		return
	}
	known := []string{regionsKey}
	for _, s := range l.settings {
		if s.fileKey() == key {
			if text, ok := file.scalar(key, value, s.kind == list); ok {
				l.file[key] = input{file.source(key, value), text}
			}
			return
		}
		if s.kind == secret && s.key() == key {
			file.fault(key, value, "must not be in this file: set %s to the path of a file with the value, or set %s",
				s.fileKey(), s.env())
			return
		}
		if s.fileKey() != "" {
			known = append(known, s.fileKey())
		}
	}
	file.fault(key, value, "is not a setting%s", suggestion(key, known, serveHelp))
}

const serveHelp = "steward serve --help"

// suggestion ends a message about an unknown name: it returns the most similar known one, or the
// command that lists them.
func suggestion(name string, known []string, help string) string {
	best := ""
	least := max(2, len(bare(name))/3) + 1
	for _, k := range known {
		if d := levenshtein(bare(name), bare(k)); d < least {
			best = k
			least = d
		}
	}
	if best == "" {
		return "; see `" + help + "`"
	}
	return "; did you mean " + best + "?"
}

// bare returns a name without the prefix or suffix that all names of its kind share.
func bare(name string) string {
	return strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(name, envPrefix), "--"))
}

// levenshtein returns the fewest bytes to insert, delete or replace to turn a into b.
func levenshtein(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
