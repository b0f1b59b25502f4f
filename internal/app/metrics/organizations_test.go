package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/web"
)

func TestOrganizationsAreListedByRequests(t *testing.T) {
	now := time.Unix(1e9, 0)
	o := newOrganizations(func() time.Time { return now })
	serve := func(org string, status, n int) {
		for range n {
			o.served(web.Served{Meta: &web.Meta{OrgID: org}, Status: status})
		}
	}
	serve("org_a", 200, 3)
	serve("", 401, 9)
	now = now.Add(40 * time.Second)
	serve("org_a", 200, 1)
	serve("org_b", 500, 5)
	o.servedS3(web.Served{Meta: &web.Meta{OrgID: "org_c"}, Status: 200, Received: 100, Bytes: 11})
	o.servedS3(web.Served{Meta: &web.Meta{OrgID: "org_c"}, Status: 503, Bytes: 9})
	o.accepted("org_a")
	b := OrganizationUse{ID: "org_b", Requests: 5, Errors: 5}
	c := OrganizationUse{ID: "org_c", S3Requests: 2, S3Bytes: 120, Errors: 1}
	now = now.Add(10 * time.Second)
	want := Organizations{Seconds: 50, Organizations: []OrganizationUse{b, {ID: "org_a", Requests: 4, Events: 1}, c}}
	if diff := cmp.Diff(want, o.list()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	now = now.Add(20 * time.Second) // the first period is over
	want = Organizations{Seconds: 30, Organizations: []OrganizationUse{b, c, {ID: "org_a", Requests: 1, Events: 1}}}
	if diff := cmp.Diff(want, o.list()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	now = now.Add(time.Hour)
	if got := o.list().Organizations; len(got) != 0 {
		t.Errorf("an hour later %v are listed", got)
	}
}

func TestOrganizationsAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	o := newOrganizations(func() time.Time { return now })
	for i := range 10 * maxOrganizations {
		o.served(web.Served{Meta: &web.Meta{OrgID: fmt.Sprint("org_", i)}, Status: 200})
	}
	if n := len(o.current.uses); n != maxOrganizations {
		t.Errorf("%d organizations are counted", n)
	}
}
