package s3

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/s3err"
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
	// name is that of S3 after RoutePrefix, "" for what is not carried out.
	name   string
	method string
	level  level
	// sub is the query name that selects the operation, or "".
	sub string
	// copies is whether the operation is selected by X-Amz-Copy-Source.
	copies bool
	// query and headers are the other query names and the X-Amz-* headers that a write may have.
	query, headers []string
	// stream is whether the body is an object or a part, which is not read into memory.
	stream bool
	// refused is whether the protocol itself refuses the operation, after it has authorized the caller.
	refused bool
}

// The headers of operations that store an object, and of those that copy one.
var (
	storeHeaders = []string{"x-amz-acl", "x-amz-storage-class", "x-amz-tagging", "x-amz-meta-"}
	copyHeaders  = []string{
		"x-amz-copy-source", "x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match",
		"x-amz-copy-source-if-modified-since", "x-amz-copy-source-if-unmodified-since", "x-amz-source-expected-bucket-owner",
	}
)

// operations are the operations that are carried out, and those that the protocol refuses. GET and
// HEAD may have any other query names and headers, which are ignored, as S3 does. A write with one
// that is not listed is refused: it would be answered as if it had been carried out.
var operations = slices.Concat(carriedOut,
	refused(http.MethodGet, bucketLevel, "accelerate", "analytics", "encryption", "intelligent-tiering", "inventory", "lifecycle",
		"logging", "metrics", "notification", "publicAccessBlock", "replication", "requestPayment", "versions", "website"),
	refused(http.MethodPut, bucketLevel, "accelerate", "acl", "analytics", "cors", "encryption", "intelligent-tiering", "inventory",
		"lifecycle", "logging", "metrics", "notification", "object-lock", "ownershipControls", "policy", "publicAccessBlock",
		"replication", "requestPayment", "tagging", "versioning", "website"),
	refused(http.MethodDelete, bucketLevel, "analytics", "cors", "encryption", "intelligent-tiering", "inventory", "lifecycle",
		"metrics", "ownershipControls", "policy", "publicAccessBlock", "replication", "tagging", "website"),
	refused(http.MethodGet, objectLevel, "acl", "legal-hold", "retention"),
	refused(http.MethodPut, objectLevel, "acl", "legal-hold", "retention"),
	refused(http.MethodPost, objectLevel, "restore"),
)

func refused(method string, l level, subs ...string) (list []operation) {
	for _, sub := range subs {
		list = append(list, operation{method: method, level: l, sub: sub, refused: true})
	}
	return list
}

// carriedOut are the operations that are carried out.
var carriedOut = []operation{
	{name: "s3.ListBuckets", method: http.MethodGet, level: serviceLevel},

	{name: "s3.ListObjects", method: http.MethodGet, level: bucketLevel}, // and ListObjectsV2
	{name: "s3.GetBucketAcl", method: http.MethodGet, level: bucketLevel, sub: "acl"},
	{name: "s3.GetBucketCors", method: http.MethodGet, level: bucketLevel, sub: "cors"},
	{name: "s3.GetBucketLocation", method: http.MethodGet, level: bucketLevel, sub: "location"},
	{name: "s3.GetObjectLockConfiguration", method: http.MethodGet, level: bucketLevel, sub: "object-lock"},
	{name: "s3.GetBucketOwnershipControls", method: http.MethodGet, level: bucketLevel, sub: "ownershipControls"},
	{name: "s3.GetBucketPolicy", method: http.MethodGet, level: bucketLevel, sub: "policy"},
	{name: "s3.GetBucketPolicyStatus", method: http.MethodGet, level: bucketLevel, sub: "policyStatus"},
	{name: "s3.GetBucketTagging", method: http.MethodGet, level: bucketLevel, sub: "tagging"},
	{name: "s3.ListMultipartUploads", method: http.MethodGet, level: bucketLevel, sub: "uploads"},
	{name: "s3.GetBucketVersioning", method: http.MethodGet, level: bucketLevel, sub: "versioning"},
	{name: "s3.HeadBucket", method: http.MethodHead, level: bucketLevel},
	{name: "s3.CreateBucket", method: http.MethodPut, level: bucketLevel, headers: []string{"x-amz-acl", "x-amz-object-ownership"}},
	{name: "s3.DeleteBucket", method: http.MethodDelete, level: bucketLevel},
	{name: "s3.DeleteObjects", method: http.MethodPost, level: bucketLevel, sub: "delete"},
	{name: "s3.PostObject", method: http.MethodPost, level: bucketLevel}, // a form

	{name: "s3.GetObject", method: http.MethodGet, level: objectLevel},
	{name: "s3.GetObjectAttributes", method: http.MethodGet, level: objectLevel, sub: "attributes"},
	{name: "s3.GetObjectTagging", method: http.MethodGet, level: objectLevel, sub: "tagging"},
	{name: "s3.ListParts", method: http.MethodGet, level: objectLevel, sub: "uploadId"},
	{name: "s3.HeadObject", method: http.MethodHead, level: objectLevel},
	{name: "s3.PutObject", method: http.MethodPut, level: objectLevel, headers: storeHeaders, stream: true},
	{name: "s3.UploadPart", method: http.MethodPut, level: objectLevel, sub: "uploadId", query: []string{"partNumber"}, stream: true},
	{
		name: "s3.CopyObject", method: http.MethodPut, level: objectLevel, copies: true,
		headers: slices.Concat(storeHeaders, copyHeaders, []string{"x-amz-metadata-directive", "x-amz-tagging-directive"}),
	},
	{
		name: "s3.UploadPartCopy", method: http.MethodPut, level: objectLevel, sub: "uploadId", copies: true, query: []string{"partNumber"},
		headers: append(slices.Clone(copyHeaders), "x-amz-copy-source-range"),
	},
	{name: "s3.PutObjectTagging", method: http.MethodPut, level: objectLevel, sub: "tagging", query: []string{"versionId"}},
	{name: "s3.CreateMultipartUpload", method: http.MethodPost, level: objectLevel, sub: "uploads", headers: storeHeaders},
	{name: "s3.CompleteMultipartUpload", method: http.MethodPost, level: objectLevel, sub: "uploadId", headers: []string{"x-amz-mp-object-size"}},
	{name: "s3.DeleteObject", method: http.MethodDelete, level: objectLevel, query: []string{"versionId"}},
	{name: "s3.DeleteObjectTagging", method: http.MethodDelete, level: objectLevel, sub: "tagging", query: []string{"versionId"}},
	{name: "s3.AbortMultipartUpload", method: http.MethodDelete, level: objectLevel, sub: "uploadId", headers: []string{"x-amz-if-match-initiated-time"}},
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

// operationOf returns the operation of a request: the one whose sub-resource it has, or the plain
// one. If there is none, it returns one without any names.
func (s *Server) operationOf(ctx fiber.Ctx) operation {
	found := operation{method: ctx.Method(), level: s.levelOf(ctx), copies: ctx.Get("X-Amz-Copy-Source") != ""}
	for _, o := range operations {
		switch {
		case o.method != found.method || o.level != found.level || o.copies != found.copies:
		case o.sub == "":
			found = o
		case ctx.Request().URI().QueryArgs().Has(o.sub):
			return o
		}
	}
	return found
}

// levelOf returns what the path of a request names.
func (s *Server) levelOf(ctx fiber.Ctx) level {
	if hasKey(ctx, s.Domain) {
		return objectLevel
	}
	if _, ok := bucketOfHost(ctx, s.Domain); ok || len(ctx.Request().URI().PathOriginal()) > 1 {
		return bucketLevel
	}
	return serviceLevel
}

// check returns an error if a request asks for more than the operation carries out.
func (o operation) check(ctx fiber.Ctx) s3err.S3Error {
	if o.level == serviceLevel || o.refused {
		return nil
	}
	for name, value := range ctx.Request().URI().QueryArgs().All() {
		if err := o.checkQuery(string(name), string(value)); err != nil {
			return err
		}
	}
	if !o.writes() {
		return nil
	}
	for name, value := range ctx.Request().Header.All() {
		if err := o.checkHeader(strings.ToLower(string(name)), string(value)); err != nil {
			return err
		}
	}
	return nil
}

func (o operation) writes() bool {
	return o.method == http.MethodPut || o.method == http.MethodPost || o.method == http.MethodDelete
}

func (o operation) checkQuery(name, value string) s3err.S3Error {
	isSub := slices.Contains(subresources[o.level], name)
	switch {
	case name == o.sub, !o.writes() && !isSub:
		return nil
	case isSub:
		return notImplemented("The sub-resource " + name)
	case slices.Contains(o.query, name), contains(commonQuery, name):
		return nil
	}
	lower := strings.ToLower(name)
	if slices.Contains(presignQuery, lower) || contains(commonHeaders, lower) {
		return nil
	}
	if lower == "x-amz-acl" {
		return o.checkHeader(lower, value)
	}
	return invalidArgument("The query parameter " + name + " is unknown. If it stands for a header, send it as a header.")
}

// checkHeader checks a header, whose name is in lower case.
func (o operation) checkHeader(name, value string) s3err.S3Error {
	switch {
	case !strings.HasPrefix(name, "x-amz-"), contains(commonHeaders, name):
		return nil
	case strings.HasPrefix(name, "x-amz-grant-"):
		return s3err.GetAPIError(s3err.ErrAclNotSupported)
	case !contains(o.headers, name):
		return notImplemented("The header " + name)
	case name == "x-amz-acl":
		return checkACL(value)
	}
	return nil
}

// checkACL refuses ACLs that would give others rights: what is public is configured for a bucket.
func checkACL(value string) s3err.S3Error {
	switch value {
	case "", "private", "bucket-owner-full-control":
		return nil
	}
	return s3err.GetAPIError(s3err.ErrAclNotSupported)
}

// contains reports whether a name is one of a list, or begins with one of its prefixes.
func contains(list []string, name string) bool {
	return slices.ContainsFunc(list, func(known string) bool {
		return name == known || strings.HasSuffix(known, "-") && strings.HasPrefix(name, known)
	})
}
