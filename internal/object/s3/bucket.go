package s3

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"time"

	"steward/internal/object"
)

const namespace = "http://s3.amazonaws.com/doc/2006-03-01/"

// timeFormat formats times in XML.
const timeFormat = "2006-01-02T15:04:05.000Z"

// owner identifies a bucket's owner by its access key.
type owner struct{ ID, DisplayName string }

func ownerOf(b *object.Bucket) owner { return owner{b.AccessKey, b.AccessKey} }

// listBuckets lists the caller's bucket, the only one it owns.
func (r *request) listBuckets() (any, error) {
	type bucket struct{ Name, CreationDate string }
	out := struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListAllMyBucketsResult"`
		Owner   owner
		Buckets []bucket `xml:"Buckets>Bucket"`
		Prefix  string   `xml:",omitempty"`
	}{Owner: ownerOf(r.caller), Prefix: r.query.Get("prefix")}
	if b := r.caller; strings.HasPrefix(b.Name, out.Prefix) && b.Name > r.query.Get("continuation-token") {
		out.Buckets = append(out.Buckets, bucket{b.Name, b.CreatedAt.Std().Format(timeFormat)})
	}
	return out, nil
}

// headBucket answers 200: authorize has found the bucket.
func (r *request) headBucket() (any, error) {
	r.w.Header().Set("X-Amz-Bucket-Region", DefaultRegion)
	return nil, nil
}

// missing returns a handler that always fails with the same code, for example because no bucket can have
// the configuration that it would read.
func missing(code string) func(*request) (any, error) {
	return func(*request) (any, error) { return nil, fail(code) }
}

// empty returns a handler that reads a configuration without settings.
func empty(document string) func(*request) (any, error) {
	return func(*request) (any, error) {
		return struct{ XMLName xml.Name }{xml.Name{Space: namespace, Local: document}}, nil
	}
}

// accessControl answers GetBucketAcl and GetObjectAcl.
type accessControl struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ AccessControlPolicy"`
	Owner   owner
	Grants  []grant `xml:"AccessControlList>Grant"`
}

type grant struct {
	Grantee struct {
		Instance string `xml:"xmlns:xsi,attr"`
		Type     string `xml:"xsi:type,attr"`
		owner
	}
	Permission string
}

// getACL grants the owner full control, and nobody else anything.
func (r *request) getACL() (any, error) {
	g := grant{Permission: "FULL_CONTROL"}
	g.Grantee.Instance = "http://www.w3.org/2001/XMLSchema-instance"
	g.Grantee.Type = "CanonicalUser"
	g.Grantee.owner = ownerOf(r.bucket)
	return accessControl{Owner: ownerOf(r.bucket), Grants: []grant{g}}, nil
}

func (r *request) getObjectACL() (any, error) {
	if _, err := r.find(); err != nil {
		return nil, err
	}
	return r.getACL()
}

func (r *request) getBucketCORS() (any, error) {
	rules := r.server.corsRules(r.bucket)
	if len(rules) == 0 {
		return nil, fail("NoSuchCORSConfiguration")
	}
	return corsConfiguration{Rules: rules}, nil
}

// getBucketPolicy returns a public bucket's policy: everybody may read objects.
func (r *request) getBucketPolicy() (any, error) {
	if !isPublic(r.bucket) {
		return nil, fail("NoSuchBucketPolicy")
	}
	text, err := json.Marshal(map[string]any{
		"Version": "2012-10-17",
		"Statement": []map[string]any{{
			"Effect": "Allow", "Principal": map[string]string{"AWS": "*"}, "Action": []string{"s3:GetObject"},
			"Resource": []string{"arn:aws:s3:::" + r.bucket.Name + "/*"},
		}},
	})
	r.w.Header().Set("Content-Type", "application/json")
	return &content{io.NopCloser(bytes.NewReader(text)), int64(len(text))}, err
}

func (r *request) getBucketPolicyStatus() (any, error) {
	if !isPublic(r.bucket) {
		return nil, fail("NoSuchBucketPolicy")
	}
	return struct {
		XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ PolicyStatus"`
		IsPublic bool
	}{IsPublic: true}, nil
}

// getBucketOwnershipControls says that ACLs are off.
func (r *request) getBucketOwnershipControls() (any, error) {
	return struct {
		XMLName   xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ OwnershipControls"`
		Ownership string   `xml:"Rule>ObjectOwnership"`
	}{Ownership: "BucketOwnerEnforced"}, nil
}

func (r *request) getBucketRequestPayment() (any, error) {
	return struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ RequestPaymentConfiguration"`
		Payer   string
	}{Payer: "BucketOwner"}, nil
}

func formatTime(t time.Time) string { return t.UTC().Format(timeFormat) }
