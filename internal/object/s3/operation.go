package s3

import (
	"net/http"
	"slices"
	"strings"
)

// level is what the path of a request names.
type level int

const (
	serviceLevel level = iota
	bucketLevel
	objectLevel
)

// operation is a request of S3. All names are as S3 writes them; one that ends with
// a hyphen stands for all names that begin with it.
type operation struct {
	// name is that of S3, "" for what is not carried out.
	name   string
	method string
	level  level
	// sub is the query name that selects the operation, or "".
	sub string
	// copies is whether the operation is selected by X-Amz-Copy-Source.
	copies bool
	// query and headers are the other query names and the X-Amz-* headers that a write may have.
	query, headers []string
	// public is whether everybody may do it in a public bucket. Others are for the owner.
	public bool
	// creates is whether it is for a bucket that need not exist.
	creates bool
	// stream is whether the body is an object or a part, which is not read into memory.
	stream bool
	// form is whether the body is an HTML form, which has the signature.
	form bool
	// handle carries it out. It returns what is sent as XML, a *content, or nil for an empty response.
	handle func(*request) (any, error)
	// status is that of an empty response; 0 means 200.
	status int
}

// The headers of operations that store an object, and of those that copy one.
var (
	storeHeaders = []string{"x-amz-acl", "x-amz-storage-class", "x-amz-tagging", "x-amz-meta-"}
	copyHeaders  = []string{
		"x-amz-copy-source", "x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match",
		"x-amz-copy-source-if-modified-since", "x-amz-copy-source-if-unmodified-since", "x-amz-source-expected-bucket-owner",
	}
)

// operations are the operations that are carried out. GET and HEAD may have any other query names and headers,
// which are ignored, as S3 does. A write with one that is not listed is refused: it would be answered as if it
// had been carried out.
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
		handle: missing("BucketAlreadyOwnedByYou"), // buckets are resources of the management API
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

// formFields are the X-Amz-* fields of a form.
var formFields = append(slices.Clone(storeHeaders), "x-amz-algorithm", "x-amz-credential", "x-amz-signature")

// Names that every write may have.
var (
	// presignQuery are those of presigned URLs.
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

// subresources are the query names of S3 that select another operation than the plain one.
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

// findOperation returns the operation of a request: the one whose sub-resource it has, or the plain one. If
// there is none, it returns one without a name.
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
		return operation{method: r.Method, level: r.level} // it asks for another one than the plain one
	}
	return found
}

// check returns an error if a request asks for more than its operation carries out.
func (o operation) check(r *request) error {
	writes := r.Method != http.MethodGet && r.Method != http.MethodHead
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

// checkHeader checks a header, whose name is in lower case.
func (o operation) checkHeader(name, value string) error {
	switch {
	case !strings.HasPrefix(name, "x-amz-"), matchesAny(commonHeaders, name):
		return nil
	case strings.HasPrefix(name, "x-amz-grant-"):
		return fail("AccessControlListNotSupported")
	case !matchesAny(o.headers, name):
		return notImplemented("The header " + name)
	case name == "x-amz-acl":
		return checkACL(value)
	}
	return nil
}

// checkACL refuses ACLs that would give others rights: what is public is configured for a bucket.
func checkACL(value string) error {
	switch value {
	case "", "private", "bucket-owner-full-control":
		return nil
	}
	return fail("AccessControlListNotSupported")
}

// matchesAny reports whether a name is one of a list, or begins with one of its prefixes.
func matchesAny(list []string, name string) bool {
	return slices.ContainsFunc(list, func(known string) bool {
		return name == known || strings.HasSuffix(known, "-") && strings.HasPrefix(name, known)
	})
}
