package s3

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"time"

	"steward/internal/object"
)

const namespace = "http://s3.amazonaws.com/doc/2006-03-01/"

// timeFormat is that of times in XML.
const timeFormat = "2006-01-02T15:04:05.000Z"

// owner is the access key of a bucket.
type owner struct{ ID, DisplayName string }

func ownerOf(b *object.Bucket) owner { return owner{b.AccessKey, b.AccessKey} }

// listBuckets returns the bucket of the caller.
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

// headBucket reports that a bucket exists.
func (r *request) headBucket() (any, error) {
	r.w.Header().Set("X-Amz-Bucket-Region", DefaultRegion)
	return nil, nil
}

// missing returns the handler of an operation that always has the same error, such as reading a configuration
// that no bucket has.
func missing(code string) func(*request) (any, error) {
	return func(*request) (any, error) { return nil, fail(code) }
}

// empty returns the handler of an operation that reads a configuration without settings.
func empty(document string) func(*request) (any, error) {
	return func(*request) (any, error) {
		return struct{ XMLName xml.Name }{xml.Name{Space: namespace, Local: document}}, nil
	}
}

// accessControl is the answer to GetBucketAcl and GetObjectAcl.
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

// getACL says that everything is the owner's.
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

// policy is a text that is sent as it is.
type policy []byte

// getBucketPolicy returns the policy of a public bucket: everybody may read objects.
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
	return policy(text), err
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
