package s3_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/object"
	"steward/internal/object/s3"
	"steward/internal/waittest"
)

// TestRequestsAreSharedByOrganizations has uploads of one organization stall until more are refused. Another
// organization stores objects, and so does the first one once its uploads have ended.
func TestRequestsAreSharedByOrganizations(t *testing.T) {
	const slots = 128 // an organization has 48 of them
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{Slots: s3.NewSlots(slots)})
	greedy, other := f.newBucketOf("org_1", "greedy"), f.newBucketOf("org_2", "other")
	used := func(want int64, owners int) bool {
		u := f.server.Slots.Usage()
		return u.Common+u.Reserve == want && u.Owners == owners
	}
	put := func(b *object.Bucket, key string) call {
		return call{method: "PUT", path: "/" + b.Name + "/" + key, by: b, body: "x"}
	}
	var stalled []net.Conn
	for i := range 48 {
		r := f.request(call{method: "PUT", path: fmt.Sprint("/greedy/", i), by: greedy, payload: "UNSIGNED-PAYLOAD"})
		r.Body = io.NopCloser(strings.NewReader(""))
		r.ContentLength = 1 << 20
		stalled = append(stalled, f.dial(r))
		waittest.True(t, "the upload to begin", func() bool { return used(int64(i+1), 1) }) // its address has no slot any more
	}
	f.do(put(greedy, "more")).want(t, "one more of the same organization", 503, "SlowDown")
	for i := range 20 {
		f.do(put(other, fmt.Sprint(i))).want(t, "an object of another organization", 200, "")
	}
	for _, conn := range stalled {
		check(t, conn.Close())
	}
	waittest.True(t, "the slots to be returned", func() bool { return used(0, 0) })
	f.do(put(greedy, "more")).want(t, "the same organization later", 200, "")
}
