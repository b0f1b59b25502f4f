package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"steward/internal/cli/output"
)

// maxOrganizations caps the organizations in a view.
const maxOrganizations = 20

// Organization is an organization's usage: requests, events and errors in the last minute,
// statements and commands between the two scrapes.
type Organization struct {
	ID         string  `json:"id"`
	Requests   float64 `json:"requests_per_second"`
	Events     float64 `json:"events_per_second"`
	S3Requests float64 `json:"s3_requests_per_second"`
	S3Bytes    float64 `json:"s3_bytes_per_second"`
	Statements float64 `json:"database_statements_per_second"`
	Commands   float64 `json:"kv_commands_per_second"`
	Errors     float64 `json:"errors_per_second"`
}

// heaviest returns the organizations that use most: those with the largest share of all requests,
// events, S3 requests, S3 bytes, statements or commands come first.
func heaviest(before, after scrape) []Organization {
	all := slices.Collect(maps.Values(organizationsOf(before, after)))
	var total Organization
	for _, o := range all {
		for i, n := range o.uses() {
			*total.uses()[i] += *n
		}
	}
	shares := make(map[*Organization]float64, len(all))
	for _, o := range all {
		shares[o] = o.share(total)
	}
	all = slices.DeleteFunc(all, func(o *Organization) bool { return shares[o] == 0 })
	slices.SortFunc(all, func(a, b *Organization) int {
		return cmp.Or(cmp.Compare(shares[b], shares[a]), cmp.Compare(a.ID, b.ID))
	})
	listed := make([]Organization, min(len(all), maxOrganizations))
	for i := range listed {
		listed[i] = *all[i]
	}
	return listed
}

// organizationsOf returns all organizations' usage.
func organizationsOf(before, after scrape) map[string]*Organization {
	all := map[string]*Organization{}
	seconds := max(after.counted.Seconds, 1)
	for _, u := range after.counted.Organizations {
		all[u.ID] = &Organization{
			ID: u.ID, Requests: float64(u.Requests) / seconds, Events: float64(u.Events) / seconds,
			S3Requests: float64(u.S3Requests) / seconds, S3Bytes: float64(u.S3Bytes) / seconds,
			Errors: float64(u.Errors) / seconds,
		}
	}
	of := func(id string) *Organization {
		if all[id] == nil {
			all[id] = &Organization{ID: id}
		}
		return all[id]
	}
	between := after.at.Sub(before.at).Seconds()
	for id, n := range after.statements {
		of(id).Statements = increase(before.statements[id], n) / between
	}
	for id, n := range after.commands {
		of(id).Commands = increase(before.commands[id], n) / between
	}
	return all
}

// uses returns the figures by which we compare organizations.
func (o *Organization) uses() [6]*float64 {
	return [6]*float64{&o.Requests, &o.Events, &o.S3Requests, &o.S3Bytes, &o.Statements, &o.Commands}
}

// share returns the organization's largest share in any figure's total.
func (o *Organization) share(total Organization) (largest float64) {
	for i, n := range o.uses() {
		if all := *total.uses()[i]; all > 0 {
			largest = max(largest, *n/all)
		}
	}
	return largest
}

// writeOrganizations writes a table of organizations, if there are any.
func writeOrganizations(b *strings.Builder, all []Organization) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%-30s  %10s  %8s  %8s  %10s  %8s  %8s  %8s\n",
		"ORGANIZATION", "REQUESTS/S", "EVENTS/S", "S3/S", "S3 BYTES/S", "SQL/S", "KV/S", "ERRORS/S")
	for _, o := range all {
		fmt.Fprintf(b, "%-30s  %10.1f  %8.1f  %8.1f  %10s  %8.1f  %8.1f  %8.1f\n", output.Clean(o.ID), o.Requests, o.Events,
			o.S3Requests, output.ByteSize(int64(o.S3Bytes)), o.Statements, o.Commands, o.Errors)
	}
}
