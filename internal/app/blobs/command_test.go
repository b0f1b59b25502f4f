package blobs

import "testing"

func TestRequestHasTheStores(t *testing.T) {
	environ := []string{"STEWARD_BLOB_ACCESS_KEY=k", "STEWARD_BLOB_SECRET_KEY=s", "STEWARD_BLOB_URL=s3://other?endpoint=https://h"}
	for name, test := range map[string]struct {
		from, to string
		toDisk   bool
	}{
		"to S3":   {"disk", "s3://b/p?endpoint=https://h", false},
		"to disk": {"s3://b/p?endpoint=https://h", "disk", true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newRequest(map[string]string{"data": "d"}, environ, test.from, test.to)
			if err != nil {
				t.Fatal(err)
			}
			if c := r.Config; c.Data != "d" || c.BlobURL.Bucket != "b" || c.BlobAccessKey != "k" || r.ToDisk != test.toDisk {
				t.Errorf("got %s, %v, %s, to disk %v", c.Data, c.BlobURL, string(c.BlobAccessKey), r.ToDisk)
			}
		})
	}
}
