package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Region is a place where users can create resources, with an engine for each type.
type Region struct {
	Region, Description string
	S3, DB, KV          Engine
}

// Engine provides a type of resources in a region.
type Engine struct {
	Kind EngineKind
	URL  Secret // a server's administrator URL; "" unless Kind is one
}

// EngineKind is an engine's kind.
type EngineKind string

// The kinds of engines.
const (
	Embedded   EngineKind = "embedded" // this process, with files in Data
	NoEngine   EngineKind = "none"
	PostgreSQL EngineKind = "postgres"
	Redis      EngineKind = "redis"
)

// newRegion returns a region whose engines are all embedded.
func newRegion(name, description string) Region {
	embedded := Engine{Kind: Embedded}
	return Region{Region: name, Description: description, S3: embedded, DB: embedded, KV: embedded}
}

// engineParsers parses the engine for each type.
var engineParsers = map[string]func(text string) (Engine, error){
	"s3": func(text string) (Engine, error) { return parseEngine(text, "", "embedded or none") },
	"db": func(text string) (Engine, error) {
		return parseEngine(text, PostgreSQL, "embedded, none or postgres://user:password@host:port/database")
	},
	"kv": func(text string) (Engine, error) {
		return parseEngine(text, Redis, "embedded, none or redis://user:password@host:port/0")
	},
}

// engineSchemes maps URL schemes to kinds of servers.
var engineSchemes = map[string]EngineKind{
	"postgres": PostgreSQL, "postgresql": PostgreSQL, "redis": Redis, "rediss": Redis,
	"redis+cluster": Redis, "rediss+cluster": Redis, "redis+sentinel": Redis, "rediss+sentinel": Redis,
}

// parseEngine parses an engine that may be a server of one kind. The error contains expected.
func parseEngine(text string, server EngineKind, expected string) (Engine, error) {
	if kind := EngineKind(text); kind == Embedded || kind == NoEngine {
		return Engine{Kind: kind}, nil
	}
	u, err := url.Parse(text) // err contains the password
	if err != nil || server == "" || engineSchemes[u.Scheme] != server || u.Hostname() == "" {
		return Engine{}, mustBe(expected)
	}
	return Engine{Kind: server, URL: Secret(text)}, nil
}

var regionName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// regions returns the list of regions, which may be empty.
func (f yamlFile) regions(n *yaml.Node) []Region {
	if n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		f.fault(regionsKey, n, "must be a list of `{region: …, description: …}`")
		return nil
	}
	var all []Region
	for i, item := range n.Content {
		path := fmt.Sprintf("%s[%d].", regionsKey, i)
		r := f.region(item, path)
		same := func(other Region) bool { return other.Region == r.Region }
		if !regionName.MatchString(r.Region) {
			f.fault(path+"region", item, "must be 1 to 32 characters of a-z, 0-9 and -")
		} else if slices.ContainsFunc(all, same) {
			f.fault(path+"region", item, "must not be given twice")
		}
		all = append(all, r)
	}
	return all
}

func (f yamlFile) region(n *yaml.Node, path string) Region {
	r := newRegion("", "")
	engines := map[string]*Engine{"s3": &r.S3, "db": &r.DB, "kv": &r.KV}
	given := map[string]bool{}
	f.entries(n, path, func(key string, value *yaml.Node) {
		resourceType, fromFile := strings.CutSuffix(key, "_file")
		switch engine, ok := engines[resourceType]; {
		case key == "region":
			r.Region, _ = f.scalar(path+key, value, false)
		case key == "description":
			r.Description, _ = f.scalar(path+key, value, false)
		case !ok || key == "s3_file":
			known := []string{"region", "description", "s3", "db", "db_file", "kv", "kv_file"}
			f.fault(path+key, value, "is not a setting%s", suggestion(key, known, serveHelp))
		case given[resourceType]:
			f.fault(path+key, value, "must not be given together with %s", other(key))
		default:
			given[resourceType] = true
			if read, ok := f.engine(path+key, value, resourceType, fromFile); ok {
				*engine = read
			}
		}
	})
	return r
}

// other returns the other key for the same engine: a key that names a file, or one with the value.
func other(key string) string {
	if name, ok := strings.CutSuffix(key, "_file"); ok {
		return name
	}
	return key + "_file"
}

// engine reads the engine for a type of resources. It notes a fault and returns false if it is
// invalid.
func (f yamlFile) engine(key string, value *yaml.Node, resourceType string, fromFile bool) (Engine, bool) {
	text, ok := f.text(key, value, fromFile)
	if !ok {
		return Engine{}, false
	}
	engine, err := engineParsers[resourceType](text)
	if err != nil {
		f.fault(key, value, "%v", err)
		return Engine{}, false
	}
	return engine, true
}

// text returns a single value, or the content of the file that it names. It notes a fault and
// returns false if it cannot.
func (f yamlFile) text(key string, value *yaml.Node, fromFile bool) (text string, ok bool) {
	text, ok = f.scalar(key, value, false)
	if !ok || !fromFile {
		return text, ok
	}
	content, err := os.ReadFile(text)
	if err != nil {
		f.fault(key, value, "must be the path of a readable file: %v", withoutPath(err))
		return "", false
	}
	return strings.TrimRight(string(content), "\r\n"), true
}

// RegionEngines are servers that replace embedded engines. Those that are not given are zero.
type RegionEngines struct{ DB, KV Engine }

var errRegionEngines = errors.New("must be db=postgres://…, kv=redis://…, or both with a comma between them")

// engineStart finds where an engine begins. A cluster's URL has commas too.
var engineStart = regexp.MustCompile(`(^|,)(db|kv)=`)

// ParseRegionEngines parses a list such as db=postgres://…,kv=redis://…. Its error quotes nothing
// from the list, which contains passwords.
func ParseRegionEngines(text string) (e RegionEngines, err error) {
	starts := engineStart.FindAllStringSubmatchIndex(text, -1)
	if len(starts) == 0 || starts[0][0] != 0 {
		return RegionEngines{}, errRegionEngines
	}
	given := map[string]*Engine{"db": &e.DB, "kv": &e.KV}
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		resourceType := text[at[4]:at[5]]
		engine := given[resourceType]
		if engine.Kind != "" {
			return RegionEngines{}, errRegionEngines
		}
		if *engine, err = engineParsers[resourceType](text[at[1]:end]); err != nil || engine.URL == "" {
			return RegionEngines{}, errRegionEngines
		}
	}
	return e, nil
}

// In returns a region with servers in place of its embedded engines.
func (e RegionEngines) In(r Region) Region {
	if e.DB.URL != "" && r.DB.Kind == Embedded {
		r.DB = e.DB
	}
	if e.KV.URL != "" && r.KV.Kind == Embedded {
		r.KV = e.KV
	}
	return r
}

// Redacted returns an engine as a configuration file has it, without passwords.
func (e Engine) Redacted() string {
	if e.URL == "" {
		return string(e.Kind)
	}
	u, err := url.Parse(string(e.URL))
	if err != nil {
		return string(e.Kind)
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(name, "password") {
			q.Set(name, "xxxxx")
		}
	}
	u.RawQuery = q.Encode()
	return u.Redacted()
}
