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

// TestMessagesTakeTheShareOfTheirBucket has a bucket's messages stall until there is no memory for another
// one. Small ones, and those of another bucket, are served. A message with a wrong signature holds none.
func TestMessagesTakeTheShareOfTheirBucket(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{Messages: s3.NewMessages(512 << 20)})
	hostile, victim := f.newBucket("hostile"), f.newBucket("victim")
	message := func(bucket string, n int) call {
		return call{
			method: "POST", path: "/" + bucket + "?delete=", payload: "UNSIGNED-PAYLOAD",
			header: map[string]string{"X-Amz-Checksum-Crc32": "AAAAAA=="},
			body:   "<Delete>" + strings.Repeat(" ", n) + "<Object><Key>a</Key></Object></Delete>",
		}
	}
	used := func(want int64) {
		t.Helper()
		waittest.True(t, fmt.Sprintf("%d bytes of messages", want), func() bool {
			u := f.server.Messages.Usage()
			return u.Common+u.Reserve == want
		})
	}
	large := message("hostile", 4<<20-200)
	charge := 20 * int64(len(large.body))

	// send sends a message but for its end.
	send := func(c call, by object.Bucket) *net.TCPConn {
		t.Helper()
		c.by = &by
		conn := f.dial(f.request(c))
		_, err := io.WriteString(conn, c.body[:len(c.body)-1])
		check(t, err)
		return conn
	}
	forger := *hostile
	forger.SecretKey = victim.SecretKey
	forged := send(large, forger)
	_, err := io.WriteString(forged, ">")
	check(t, err)
	_, err = forged.Read(make([]byte, 1)) // its answer
	check(t, err)
	conn := send(large, *hostile)
	used(charge)
	large.by = hostile
	f.do(large).want(t, "a second message", 503, "SlowDown")
	small := message("hostile", 0)
	small.by = hostile
	f.do(small).want(t, "a small message", 400, "BadDigest")
	other := message("victim", 4<<20-200)
	other.by = victim
	f.do(other).want(t, "a message of another bucket", 400, "BadDigest")
	_, err = io.WriteString(conn, ">")
	check(t, err)
	used(0)
	tooLarge := message("victim", 4<<20)
	tooLarge.by = victim
	f.do(tooLarge).want(t, "too large", 400, "MaxMessageLengthExceeded")
}
