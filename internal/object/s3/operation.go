package s3

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// level says whether a request's path names the service, a bucket or an object.
type level int

const (
	serviceLevel level = iota
	bucketLevel
	objectLevel
)

// operation is an S3 operation. Names are spelled as in S3; a name that ends with a hyphen is a prefix.
type operation struct {
	// name is the S3 name, or "" if we do not implement it.
	name   string
	method string
	level  level
	// sub is the query parameter that selects the operation, or "".
	sub string
	// copies reports whether X-Amz-Copy-Source selects the operation.
	copies bool
	// query and headers list the other query parameters and X-Amz-* headers that a write may carry.
	query, headers []string
	// public reports whether anybody may do it in a public bucket. Everything else is for the owner.
	public bool
	// creates reports whether the bucket may be missing.
	creates bool
	// stream reports whether the body is an object or a part, which we never read into memory.
	stream bool
	// form reports whether the body is an HTML form, which carries the signature itself.
	form bool
	// handle runs it. It returns a value to send as XML, a *content, or nil for an empty response.
	handle func(*request) (any, error)
	// status is an empty response's status. 0 means 200.
	status int
}

// X-Amz-* headers for storing and for copying an object.
var (
	storeHeaders = []string{"x-amz-acl", "x-amz-storage-class", "x-amz-tagging", "x-amz-meta-"}
	copyHeaders  = []string{
		"x-amz-copy-source", "x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match",
		"x-amz-copy-source-if-modified-since", "x-amz-copy-source-if-unmodified-since", "x-amz-source-expected-bucket-owner",
	}
)

// operations lists everything we implement. GET and HEAD may carry any other query parameters and headers;
// like S3, we ignore them. We refuse a write that carries an unlisted one, because our answer would claim
// that we had honored it.
var operations = []operation{
	{name: "ListBuckets", method: http.MethodGet, level: serviceLevel, handle: (*request).listBuckets},

	{name: "ListObjects", method: http.MethodGet, level: bucketLevel, handle: (*request).listObjects}, // and ListObjectsV2
	{name: "GetBucketAcl", method: http.MethodGet, level: bucketLevel, sub: "acl", handle: (*request).getACL},
	{name: "GetBucketAccelerateConfiguration", method: http.MethodGet, level: bucketLevel, sub: "accelerate", handle: empty("AccelerateConfiguration")},
	{name: "GetBucketCors", method: http.MethodGet, level: bucketLevel, sub: "cors", handle: (*request).getBucketCORS},
	{name: "GetBucketEncryption", method: http.MethodGet, level: bucketLevel, sub: "encryption", handle: missing("ServerSideEncryptionConfigurationNotFoundError")},
	{name: "GetBucketLifecycleConfiguration", method: http.MethodGet, level: bucketLevel, sub: "lifecycle", handle: missing("NoSuchLifecycleConfiguration")},
	{name: "GetBucketLocation", method: http.MethodGet, level: bucketLevel, sub: "location", handle: empty("LocationConstraint")},
	{name: "GetBucketLogging", method: http.MethodGet, level: bucketLevel, sub: "logging", handle: empty("BucketLoggingStatus")},
	{name: "GetBucketNotificationConfiguration", method: http.MethodGet, level: bucketLevel, sub: "notification", handle: empty("NotificationConfiguration")},
	{name: "GetObjectLockConfiguration", method: http.MethodGet, level: bucketLevel, sub: "object-lock", handle: missing("ObjectLockConfigurationNotFoundError")},
	{name: "GetBucketOwnershipControls", method: http.MethodGet, level: bucketLevel, sub: "ownershipControls", handle: (*request).getBucketOwnershipControls},
	{name: "GetBucketPolicy", method: http.MethodGet, level: bucketLevel, sub: "policy", handle: (*request).getBucketPolicy},
	{name: "GetBucketPolicyStatus", method: http.MethodGet, level: bucketLevel, sub: "policyStatus", handle: (*request).getBucketPolicyStatus},
	{name: "GetPublicAccessBlock", method: http.MethodGet, level: bucketLevel, sub: "publicAccessBlock", handle: missing("NoSuchPublicAccessBlockConfiguration")},
	{name: "GetBucketReplication", method: http.MethodGet, level: bucketLevel, sub: "replication", handle: missing("ReplicationConfigurationNotFoundError")},
	{name: "GetBucketRequestPayment", method: http.MethodGet, level: bucketLevel, sub: "requestPayment", handle: (*request).getBucketRequestPayment},
	{name: "GetBucketTagging", method: http.MethodGet, level: bucketLevel, sub: "tagging", handle: missing("NoSuchTagSet")},
	{name: "ListMultipartUploads", method: http.MethodGet, level: bucketLevel, sub: "uploads", handle: (*request).listUploads},
	{name: "GetBucketVersioning", method: http.MethodGet, level: bucketLevel, sub: "versioning", handle: empty("VersioningConfiguration")},
	{name: "GetBucketWebsite", method: http.MethodGet, level: bucketLevel, sub: "website", handle: missing("NoSuchWebsiteConfiguration")},
	{name: "HeadBucket", method: http.MethodHead, level: bucketLevel, handle: (*request).headBucket},
	{
		name: "CreateBucket", method: http.MethodPut, level: bucketLevel, creates: true, headers: []string{"x-amz-acl", "x-amz-object-ownership"},
		handle: missing("BucketAlreadyOwnedByYou"), // the management API creates buckets
	},
	{name: "DeleteBucket", method: http.MethodDelete, level: bucketLevel, handle: missing("AccessDenied")},
	{name: "DeleteObjects", method: http.MethodPost, level: bucketLevel, sub: "delete", handle: (*request).deleteObjects},
	{name: "PostObject", method: http.MethodPost, level: bucketLevel, form: true},

	{name: "GetObject", method: http.MethodGet, level: objectLevel, public: true, handle: (*request).getObject},
	{name: "GetObjectAcl", method: http.MethodGet, level: objectLevel, sub: "acl", handle: (*request).getObjectACL},
	{name: "GetObjectAttributes", method: http.MethodGet, level: objectLevel, sub: "attributes", handle: (*request).getObjectAttributes},
	{name: "GetObjectTagging", method: http.MethodGet, level: objectLevel, sub: "tagging", handle: (*request).getObjectTagging},
	{name: "ListParts", method: http.MethodGet, level: objectLevel, sub: "uploadId", handle: (*request).listParts},
	{name: "HeadObject", method: http.MethodHead, level: objectLevel, public: true, handle: (*request).headObject},
	{name: "PutObject", method: http.MethodPut, level: objectLevel, headers: storeHeaders, stream: true, handle: (*request).putObject},
	{
		name: "UploadPart", method: http.MethodPut, level: objectLevel, sub: "uploadId", query: []string{"partNumber"}, stream: true,
		handle: (*request).uploadPart,
	},
	{
		name: "CopyObject", method: http.MethodPut, level: objectLevel, copies: true, handle: (*request).copyObject,
		headers: slices.Concat(storeHeaders, copyHeaders, []string{"x-amz-metadata-directive", "x-amz-tagging-directive"}),
	},
	{
		name: "UploadPartCopy", method: http.MethodPut, level: objectLevel, sub: "uploadId", copies: true, query: []string{"partNumber"},
		headers: append(slices.Clone(copyHeaders), "x-amz-copy-source-range"), handle: (*request).uploadPartCopy,
	},
	{name: "PutObjectTagging", method: http.MethodPut, level: objectLevel, sub: "tagging", query: []string{"versionId"}, handle: (*request).putObjectTagging},
	{
		name: "CreateMultipartUpload", method: http.MethodPost, level: objectLevel, sub: "uploads", headers: storeHeaders,
		handle: (*request).createUpload,
	},
	{
		name: "CompleteMultipartUpload", method: http.MethodPost, level: objectLevel, sub: "uploadId",
		headers: []string{"x-amz-mp-object-size"}, handle: (*request).completeUpload,
	},
	{
		name: "DeleteObject", method: http.MethodDelete, level: objectLevel, query: []string{"versionId"}, status: http.StatusNoContent,
		handle: (*request).deleteObject,
	},
	{
		name: "DeleteObjectTagging", method: http.MethodDelete, level: objectLevel, sub: "tagging", query: []string{"versionId"},
		status: http.StatusNoContent, handle: (*request).deleteObjectTagging,
	},
	{
		name: "AbortMultipartUpload", method: http.MethodDelete, level: objectLevel, sub: "uploadId", status: http.StatusNoContent,
		headers: []string{"x-amz-if-match-initiated-time"}, handle: (*request).abortUpload,
	},
}

// formFields lists the X-Amz-* fields that a form may have.
var formFields = append(slices.Clone(storeHeaders), "x-amz-algorithm", "x-amz-credential", "x-amz-signature")

// Names that every write may carry.
var (
	// Presigned URLs carry presignQuery.
	presignQuery = []string{
		"x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires", "x-amz-signedheaders", "x-amz-signature",
		"x-amz-security-token", "x-amz-content-sha256",
	}
	commonQuery   = []string{"x-id", "response-"}
	commonHeaders = []string{
		"x-amz-checksum-", "x-amz-content-sha256", "x-amz-date", "x-amz-decoded-content-length", "x-amz-expected-bucket-owner",
		"x-amz-request-payer", "x-amz-sdk-", "x-amz-security-token", "x-amz-trailer", "x-amz-user-agent",
		"x-amz-cf-id", // CloudFront adds it
	}
)

// cannedACLs lists the ACLs that S3 knows by name.
var cannedACLs = []string{
	"private", "public-read", "public-read-write", "authenticated-read", "aws-exec-read", "bucket-owner-read",
	"bucket-owner-full-control", "log-delivery-write",
}

// subresources lists the S3 query parameters that select another operation than the plain one.
var subresources = map[level][]string{
	bucketLevel: {
		"abac", "accelerate", "acl", "analytics", "cors", "delete", "encryption", "intelligent-tiering", "inventory", "lifecycle",
		"location", "logging", "metadataConfiguration", "metadataInventoryTable", "metadataJournalTable", "metadataTable",
		"metrics", "notification", "object-lock", "ownershipControls", "policy", "policyStatus", "publicAccessBlock",
		"replication", "requestPayment", "session", "tagging", "uploads", "versioning", "versions", "website",
	},
	objectLevel: {
		"acl", "annotation", "annotations", "attributes", "encryption", "legal-hold", "renameObject", "restore", "retention",
		"select", "tagging", "torrent", "uploadId", "uploads", "versions",
	},
}

// findOperation looks up a request's operation: the one whose sub-resource it names, otherwise the plain
// one. If we implement neither, the result has no name.
func (r *request) findOperation() operation {
	found := operation{method: r.Method, level: r.level, copies: r.Header.Get("X-Amz-Copy-Source") != ""}
	isForm := strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data")
	for _, o := range operations {
		switch {
		case o.method != found.method || o.level != found.level || o.copies != found.copies || o.form && !isForm:
		case o.sub == "":
			found = o
		case r.query.Has(o.sub):
			return o
		}
	}
	if slices.ContainsFunc(subresources[r.level], r.query.Has) {
		return operation{method: r.Method, level: r.level} // it does not ask for the plain one
	}
	return found
}

// check returns an error if a request asks for more than its operation implements.
func (o operation) check(r *request) error {
	writes := r.Method != http.MethodGet && r.Method != http.MethodHead
	if acl := r.Header.Get("X-Amz-Acl"); writes && acl != "" && !slices.Contains(cannedACLs, acl) {
		return invalidArgument("The ACL %s is unknown.", strconv.Quote(acl))
	}
	for _, name := range subresources[o.level] {
		if name != o.sub && r.query.Has(name) {
			return notImplemented(r.Method + " with the sub-resource " + name)
		}
	}
	for name, values := range r.query {
		lower := strings.ToLower(name)
		switch {
		case name == o.sub, !writes:
		case slices.Contains(o.query, name), matchesAny(commonQuery, name), slices.Contains(presignQuery, lower),
			matchesAny(commonHeaders, lower), r.hoisted[http.CanonicalHeaderKey(name)]:
		case lower == "x-amz-acl":
			if err := o.checkHeader(lower, values[0]); err != nil {
				return err
			}
		default:
			return invalidArgument("The query parameter %s is unknown. If it stands for a header, send it as a header.", name)
		}
	}
	if writes {
		for name, values := range r.Header {
			if err := o.checkHeader(strings.ToLower(name), values[0]); err != nil {
				return err
			}
		}
	}
	if o.handle == nil {
		return failf("MethodNotAllowed", "The method %s is not allowed against this resource.", r.Method)
	}
	return nil
}

// checkHeader checks a header. The name is in lower case.
func (o operation) checkHeader(name, value string) error {
	switch {
	case !strings.HasPrefix(name, "x-amz-"), matchesAny(commonHeaders, name):
		return nil
	case strings.HasPrefix(name, "x-amz-grant-"):
		return fail("AccessControlListNotSupported")
	case !matchesAny(o.headers, name):
		return notImplemented("The header " + name)
	case name == "x-amz-acl" && !slices.Contains([]string{"", "private", "bucket-owner-full-control"}, value):
		return fail("AccessControlListNotSupported") // only a bucket's configuration makes objects public
	}
	return nil
}

// matchesAny reports whether a list contains the name or a prefix that it begins with.
func matchesAny(list []string, name string) bool {
	return slices.ContainsFunc(list, func(known string) bool {
		return name == known || strings.HasSuffix(known, "-") && strings.HasPrefix(name, known)
	})
}
