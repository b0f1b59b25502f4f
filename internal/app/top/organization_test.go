package top

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/app/metrics"
)

func TestHeaviestUseMostOfSomething(t *testing.T) {
	start := time.Unix(1e9, 0)
	before := scrape{at: start, commands: map[string]float64{"org_kv": 1000, "org_idle": 9}}
	after := scrape{
		at:         start.Add(2 * time.Second),
		statements: map[string]float64{"org_db": 10, "org_api": 30},
		commands:   map[string]float64{"org_kv": 21000, "org_idle": 9},
		counted: metrics.Organizations{Seconds: 10, Organizations: []metrics.OrganizationUse{
			{ID: "org_api", Requests: 60, Events: 20, Errors: 10},
			{ID: "org_web", Requests: 40},
			{ID: "org_s3", S3Requests: 10, S3Bytes: 1000},
		}},
	}
	want := []Organization{
		{ID: "org_api", Requests: 6, Events: 2, Errors: 1, Statements: 15},
		{ID: "org_kv", Commands: 10000},
		{ID: "org_s3", S3Requests: 1, S3Bytes: 100},
		{ID: "org_web", Requests: 4},
		{ID: "org_db", Statements: 5},
	}
	if diff := cmp.Diff(want, heaviest(before, after)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestViewHasFewOrganizations(t *testing.T) {
	after := scrape{at: time.Unix(1e9, 0), counted: metrics.Organizations{Seconds: 1}}
	for i := range 1000 {
		after.counted.Organizations = append(after.counted.Organizations, metrics.OrganizationUse{ID: fmt.Sprint(i), Requests: 1})
	}
	if n := len(heaviest(scrape{}, after)); n != maxOrganizations {
		t.Errorf("a view has %d organizations", n)
	}
}
