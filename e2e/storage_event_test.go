package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// bucketWebhook returns the internal webhook of the bucket, and whether there is one.
func bucketWebhook(b installation.Bucket) (h installation.Hook, found bool) {
	b.T.Helper()
	var all []struct {
		ID       string
		Internal bool
		Metadata map[string]string
	}
	b.Call("GET", "/webhook/list", nil).Want(200).Decode(&all)
	for _, w := range all {
		if w.Internal && w.Metadata["type"] == "s3" && w.Metadata["bucket_name"] == b.Name {
			return installation.Hook{ID: w.ID}, true
		}
	}
	return installation.Hook{}, false
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
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, b, other := sink.New(t), s.NewBucket("photos"), s.NewBucket("other")
		h, found := bucketWebhook(b)
		if _, both := bucketWebhook(other); !found || !both {
			t.Fatal("a bucket has no webhook")
		}
		b.Put("before", "x")
		if got := s.ListReceipts(h); len(got) != 0 {
			t.Errorf("%d receipts without a destination", len(got))
		}
		s.NewDestination(h, k.URL+"/events", "concurrency", 1)
		b.Put("dir/ü +1.txt", "12345")
		other.Put("a", "x")
		_, err := b.Core().Client.CopyObject(t.Context(), minio.CopyDestOptions{Bucket: b.Name, Object: "copy"},
			minio.CopySrcOptions{Bucket: b.Name, Object: "before"})
		s.Must(err)
		_, err = b.Core().Client.PutObject(t.Context(), b.Name, "large", strings.NewReader(installation.RandomText(6<<20)), 6<<20, minio.PutObjectOptions{PartSize: 5 << 20})
		s.Must(err)
		s.Must(b.Core().RemoveObject(t.Context(), b.Name, "large", minio.RemoveObjectOptions{}))
		s.Must(b.Core().RemoveObject(t.Context(), b.Name, "missing", minio.RemoveObjectOptions{}))
		s.Call("DELETE", "/storage/objects/photos?prefix=dir/", nil).Want(200)
		var got []string
		for _, a := range k.Wait("/events", 5) {
			got = append(got, describeEvent(s, a.Body))
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
		if n := len(s.ListReceipts(h)); n != len(want) {
			t.Errorf("%d receipts", n)
		}
		s.Call("DELETE", "/webhook/delete/"+h.ID, nil).Want(403)
		b.Remove()
		if _, found := bucketWebhook(b); found {
			t.Error("the webhook stays without its bucket")
		}
		s.Call("GET", "/webhook/get/"+h.ID, nil).Want(404)
	})
}

// describeEvent checks an event and returns what it is about.
func describeEvent(s *installation.Steward, body string) string {
	s.T.Helper()
	var e s3Event
	s.Must(json.Unmarshal([]byte(body), &e))
	if len(e.Records) != 1 {
		s.T.Fatalf("the event is %s", body)
	}
	r := e.Records[0]
	created := strings.HasPrefix(r.EventName, "ObjectCreated:")
	if r.EventSource != "aws:s3" || r.EventTime == "" || r.AWSRegion == "" || r.S3.Bucket.ARN != "arn:aws:s3:::"+r.S3.Bucket.Name ||
		r.RequestParameters.SourceIPAddress != "127.0.0.1" || created != (r.S3.Object.ETag != "") {
		s.T.Errorf("the event is %s", body)
	}
	return fmt.Sprintf("%s %s %s %d", r.EventName, r.S3.Bucket.Name, r.S3.Object.Key, r.S3.Object.Size)
}
