package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
)

// webhook returns the internal webhook of the bucket, and whether there is one.
func (b bucket) webhook() (h hook, found bool) {
	b.t.Helper()
	var all []struct {
		ID       string
		Internal bool
		Metadata map[string]string
	}
	b.call("GET", "/webhook/list", nil).want(200).decode(&all)
	for _, w := range all {
		if w.Internal && w.Metadata["type"] == "s3" && w.Metadata["bucket_name"] == b.name {
			return hook{ID: w.ID}, true
		}
	}
	return hook{}, false
}

// s3Event is the message of an event.
type s3Event struct {
	Records []struct {
		EventSource, EventName, EventTime, AWSRegion string
		RequestParameters                            struct{ SourceIPAddress string }
		S3                                           struct {
			Bucket struct{ Name, ARN string }
			Object struct {
				Key, ETag string
				Size      int64
			}
		}
	}
}

// TestBucketEventsAreDelivered changes objects in every way while the bucket's webhook has a
// destination, and before that.
func TestBucketEventsAreDelivered(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, b, other := newSink(t), s.bucket("photos"), s.bucket("other")
		h, found := b.webhook()
		if _, both := other.webhook(); !found || !both {
			t.Fatal("a bucket has no webhook")
		}
		b.put("before", "x")
		if got := s.receipts(h); len(got) != 0 {
			t.Errorf("%d receipts without a destination", len(got))
		}
		s.destination(h, k.URL+"/events", "concurrency", 1)
		b.put("dir/ü +1.txt", "12345")
		other.put("a", "x")
		_, err := b.core().Client.CopyObject(t.Context(), minio.CopyDestOptions{Bucket: b.name, Object: "copy"},
			minio.CopySrcOptions{Bucket: b.name, Object: "before"})
		s.must(err)
		_, err = b.core().Client.PutObject(t.Context(), b.name, "large", strings.NewReader(randomText(6<<20)), 6<<20, minio.PutObjectOptions{PartSize: 5 << 20})
		s.must(err)
		s.must(b.core().RemoveObject(t.Context(), b.name, "large", minio.RemoveObjectOptions{}))
		s.must(b.core().RemoveObject(t.Context(), b.name, "missing", minio.RemoveObjectOptions{}))
		s.call("DELETE", "/storage/objects/photos?prefix=dir/", nil).want(200)
		var got []string
		for _, a := range k.wait("/events", 5) {
			got = append(got, s.describe(a.body))
		}
		want := []string{
			"ObjectCreated:Put photos dir/%C3%BC+%2B1.txt 5",
			"ObjectCreated:Copy photos copy 1",
			"ObjectCreated:CompleteMultipartUpload photos large 6291456",
			"ObjectRemoved:Delete photos large 0",
			"ObjectRemoved:Delete photos dir/%C3%BC+%2B1.txt 0",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if n := len(s.receipts(h)); n != len(want) {
			t.Errorf("%d receipts", n)
		}
		s.call("DELETE", "/webhook/delete/"+h.ID, nil).want(403)
		b.remove()
		if _, found := b.webhook(); found {
			t.Error("the webhook stays without its bucket")
		}
		s.call("GET", "/webhook/get/"+h.ID, nil).want(404)
	})
}

// describe checks an event and returns what it is about.
func (s *steward) describe(body string) string {
	s.t.Helper()
	var e s3Event
	s.must(json.Unmarshal([]byte(body), &e))
	if len(e.Records) != 1 {
		s.t.Fatalf("the event is %s", body)
	}
	r := e.Records[0]
	created := strings.HasPrefix(r.EventName, "ObjectCreated:")
	if r.EventSource != "aws:s3" || r.EventTime == "" || r.AWSRegion == "" || r.S3.Bucket.ARN != "arn:aws:s3:::"+r.S3.Bucket.Name ||
		r.RequestParameters.SourceIPAddress != "127.0.0.1" || created != (r.S3.Object.ETag != "") {
		s.t.Errorf("the event is %s", body)
	}
	return fmt.Sprintf("%s %s %s %d", r.EventName, r.S3.Bucket.Name, r.S3.Object.Key, r.S3.Object.Size)
}
