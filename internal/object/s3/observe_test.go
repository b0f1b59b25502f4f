package s3_test

import (
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/object/s3"
	"steward/internal/waittest"
	"steward/internal/web"
)

// TestRequestsAreReported looks at what Done is told of requests that succeed, fail and are refused.
func TestRequestsAreReported(t *testing.T) {
	served := make(chan web.Served, 1)
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{Done: func(s web.Served) { served <- s }})
	b := f.newBucket("docs")
	for _, test := range []struct {
		call   call
		route  string
		status int
		known  bool // organization and bucket
		in     int
		out    int // -1 for any
	}{
		{call{method: "PUT", path: "/docs/a", body: "hello", by: b}, "s3.PutObject", 200, true, 5, 0},
		{call{method: "GET", path: "/docs/a", by: b}, "s3.GetObject", 200, true, 0, 5},
		{call{method: "HEAD", path: "/docs/a", by: b}, "s3.HeadObject", 200, true, 0, 0},
		{call{method: "GET", path: "/docs?list-type=2", by: b}, "s3.ListObjects", 200, true, 0, -1},
		{call{method: "GET", path: "/docs/missing", by: b}, "s3.GetObject", 404, true, 0, -1},
		{call{method: "PUT", path: "/docs/b", by: b, header: map[string]string{"X-Amz-Copy-Source": "/docs/a"}}, "s3.CopyObject", 200, true, 0, -1},
		{call{method: "PUT", path: "/docs/a", body: "not signed"}, "s3.PutObject", 403, false, 0, -1},
		{call{method: "GET", path: "/docs?lifecycle", by: b}, "s3.GetBucketLifecycleConfiguration", 404, true, 0, -1},
		{call{method: "GET", path: "/docs?inventory", by: b}, "s3.unknown", 501, true, 0, -1},
	} {
		f.do(test.call)
		s := waittest.Receive(t, "the report", served)
		if s.Route != test.route || s.Status != test.status || s.Received != test.in || test.out >= 0 && s.Bytes != test.out {
			t.Errorf("%s %s is reported as %s, status %d, %d bytes in, %d out", test.call.method, test.call.path,
				s.Route, s.Status, s.Received, s.Bytes)
		}
		if known := s.OrgID == "org_1" && s.Resource == "docs"; known != test.known || !known && s.OrgID+s.Resource != "" {
			t.Errorf("%s %s is reported for %q, %q", test.call.method, test.call.path, s.OrgID, s.Resource)
		}
		if s.ID == "" || s.RemoteAddr != "127.0.0.1" || s.Context == nil {
			t.Errorf("%s %s is reported with %+v", test.call.method, test.call.path, s.Meta)
		}
	}
}
