package metrics

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"steward/internal/web"
)

const (
	// usePeriod is the time after which the counts begin anew. We keep the last period.
	usePeriod = 30 * time.Second
	// maxOrganizations caps the organizations counted in a period. Those that use the server most
	// are among the first in each.
	maxOrganizations = 1000
)

// OrganizationsPath is the path at which Server lists the organizations that were counted.
const OrganizationsPath = "/debug/organizations"

// Organizations lists the organizations with requests in the last 30 to 60 seconds, the busiest
// first. Labels in metrics would stay for ever.
type Organizations struct {
	Seconds       float64           `json:"seconds"` // counted time
	Organizations []OrganizationUse `json:"organizations"`
}

// OrganizationUse sums up an organization's requests.
type OrganizationUse struct {
	ID       string `json:"id"`
	Requests int64  `json:"requests"` // to the API and ingest
	Events   int64  `json:"events"`   // accepted
	// S3Requests counts the S3 requests, and S3Bytes their bodies and responses.
	S3Requests int64 `json:"s3_requests"`
	S3Bytes    int64 `json:"s3_bytes"`
	Errors     int64 `json:"errors"` // 5xx, all requests
}

// add adds another period's counts.
func (u *OrganizationUse) add(other *OrganizationUse) {
	u.Requests += other.Requests
	u.Events += other.Events
	u.S3Requests += other.S3Requests
	u.S3Bytes += other.S3Bytes
	u.Errors += other.Errors
}

// organizations counts the organizations' requests.
type organizations struct {
	now func() time.Time

	mu       sync.Mutex
	current  period
	previous period
}

// period has the counts since a time.
type period struct {
	since time.Time
	uses  map[string]*OrganizationUse
}

func newOrganizations(now func() time.Time) *organizations {
	return &organizations{
		now: now, current: period{since: now(), uses: map[string]*OrganizationUse{}}, previous: period{since: now()},
	}
}

func (o *organizations) served(s web.Served) {
	o.count(s.OrgID, func(use *OrganizationUse) {
		use.Requests++
		use.Errors += errorOf(s)
	})
}

func (o *organizations) servedS3(s web.Served) {
	o.count(s.OrgID, func(use *OrganizationUse) {
		use.S3Requests++
		use.S3Bytes += int64(s.Received) + int64(s.Bytes)
		use.Errors += errorOf(s)
	})
}

func (o *organizations) accepted(orgID string) {
	o.count(orgID, func(use *OrganizationUse) { use.Events++ })
}

// errorOf returns 1 if the server failed to serve a request.
func errorOf(s web.Served) int64 {
	if s.Status >= http.StatusInternalServerError {
		return 1
	}
	return 0
}

// count changes an organization's counts. orgID may be "" for none.
func (o *organizations) count(orgID string, change func(use *OrganizationUse)) {
	if orgID == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance()
	use := o.current.uses[orgID]
	if use == nil {
		if len(o.current.uses) >= maxOrganizations {
			return
		}
		use = &OrganizationUse{ID: orgID}
		o.current.uses[orgID] = use
	}
	change(use)
}

// advance begins a period if the current one is over.
func (o *organizations) advance() {
	now := o.now()
	age := now.Sub(o.current.since)
	if age < usePeriod {
		return
	}
	o.previous = o.current
	if age >= 2*usePeriod {
		o.previous = period{since: now}
	}
	o.current = period{since: now, uses: map[string]*OrganizationUse{}}
}

// list returns the organizations that were counted.
func (o *organizations) list() Organizations {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance()
	sums := map[string]*OrganizationUse{}
	for _, p := range []period{o.previous, o.current} {
		for id, use := range p.uses {
			if sums[id] == nil {
				sums[id] = &OrganizationUse{ID: id}
			}
			sums[id].add(use)
		}
	}
	all := make([]OrganizationUse, 0, len(sums))
	for _, use := range sums {
		all = append(all, *use)
	}
	slices.SortFunc(all, func(a, b OrganizationUse) int {
		return cmp.Or(cmp.Compare(b.Requests+b.S3Requests, a.Requests+a.S3Requests), cmp.Compare(a.ID, b.ID))
	})
	return Organizations{Seconds: o.now().Sub(o.previous.since).Seconds(), Organizations: all}
}

// ServeHTTP responds with the list.
func (o *organizations) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o.list()) // the client may be gone
}
