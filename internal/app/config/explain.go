package config

import (
	"net/url"
	"strings"
)

// Effective is a setting in force.
type Effective struct {
	Name   string `json:"name"`
	Value  string `json:"value"`  // hidden if it is a secret
	Source string `json:"source"` // flag, variable, file or default
}

// Explain returns the settings in force. It returns the same errors as Load.
func Explain(flags map[string]string, environ []string) ([]Effective, error) {
	c, l := load(flags, environ)
	if err := l.err(); err != nil {
		return nil, err
	}
	var all []Effective
	for _, s := range l.settings {
		e := Effective{s.name, s.value, "default"}
		switch source, given := l.sources[s.name]; {
		case given && s.kind == secret && s.name != "admin-email":
			e = Effective{s.name, hidden, source}
		case given:
			e = Effective{s.name, WithoutPassword(l.texts[s.name]), source}
		case s.value == "":
			e.Source = "not set"
		}
		all = append(all, e)
	}
	names := make([]string, len(c.Regions))
	for i, r := range c.Regions {
		names[i] = r.Region
	}
	source := "default"
	if l.regions != "" {
		source = l.regions
	}
	return append(all, Effective{regionsKey, strings.Join(names, ","), source}), nil
}

// WithoutPassword returns a text as it is, or a URL without its password.
func WithoutPassword(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return hidden
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return hidden
	}
	for name := range query { // PostgreSQL allows password and sslpassword
		if strings.Contains(strings.ToLower(name), "password") {
			return hidden
		}
	}
	return u.Redacted()
}
