package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestComposeFileHasValidSettings loads the settings of each Steward in deploy/compose.yaml, with variables as its comments set them.
func TestComposeFileHasValidSettings(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image       string
			Healthcheck struct{ Test []string }
			Environment map[string]string
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	set := map[string]string{
		"STEWARD_MASTER_KEY": strings.Repeat("ab", 32), "POSTGRES_PASSWORD": "password",
		"STEWARD_BLOB_URL": "s3://steward?endpoint=https://s3.example.com", "STEWARD_BLOB_ACCESS_KEY": "key", "STEWARD_BLOB_SECRET_KEY": "secret",
	}
	variable := regexp.MustCompile(`\$\{(\w+):-([^}]*)\}`)
	stewards := 0
	for name, service := range file.Services {
		if service.Image != "steward" {
			continue
		}
		stewards++
		environ := []string{"STEWARD_DATA=/data"} // of the image
		for key, value := range service.Environment {
			value = variable.ReplaceAllStringFunc(value, func(text string) string {
				m := variable.FindStringSubmatch(text)
				if value, ok := set[m[1]]; ok {
					return value
				}
				return m[2]
			})
			environ = append(environ, key+"="+value)
		}
		c, err := Load(nil, environ)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.DatabaseURL != "" && (c.InternalListen == "" || c.InternalAdvertise != name+c.InternalListen) {
			t.Errorf("%s: other replicas do not reach what is embedded: it listens on %q, at %q", name, c.InternalListen, c.InternalAdvertise)
		}
		if want := []string{"CMD", "/usr/bin/steward", "health"}; !slices.Equal(service.Healthcheck.Test, want) {
			t.Errorf("%s: the health check is %q", name, service.Healthcheck.Test)
		}
	}
	if stewards != 3 {
		t.Errorf("%d services run Steward", stewards)
	}
}
