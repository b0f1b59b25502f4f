package config

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

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
