package s3

import (
	"encoding/xml"
	"net/http"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"steward/internal/object"
	"steward/internal/object/s3/sigv4"
)

func (r *request) createUpload() (any, error) {
	put, err := r.putRequest()
	if err != nil {
		return nil, err
	}
	if put.Attributes.Checksum, err = r.uploadChecksum(); err != nil {
		return nil, err
	}
	u, err := r.server.Uploads.Create(r.limited(), r.bucket, put)
	if err != nil {
		return nil, err
	}
	if c := u.Attributes.Checksum; c != nil {
		r.w.Header().Set("X-Amz-Checksum-Algorithm", c.Algorithm)
		r.w.Header().Set("X-Amz-Checksum-Type", c.Type)
	}
	return struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ InitiateMultipartUploadResult"`
		Bucket  string
		Key     string
		ID      string `xml:"UploadId"`
	}{Bucket: r.bucket.Name, Key: u.Key, ID: u.ID}, nil
}

// uploadChecksum returns the checksum algorithm and type that an upload asks for, or nil.
func (r *request) uploadChecksum() (*object.Checksum, error) {
	name, kind := r.Header.Get("X-Amz-Checksum-Algorithm"), strings.ToUpper(r.Header.Get("X-Amz-Checksum-Type"))
	if name == "" {
		if kind != "" {
			return nil, failf("InvalidRequest", "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.")
		}
		return nil, nil
	}
	a, err := algorithmOf(name)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == "" && a == minio.ChecksumCRC64NVME:
		kind = fullObject
	case kind == "":
		kind = composite
	case kind != fullObject && kind != composite:
		return nil, failf("InvalidRequest", "Value for x-amz-checksum-type header is invalid.")
	case kind == fullObject && !a.CanMergeCRC(), kind == composite && !a.CanComposite():
		return nil, failf("InvalidRequest", "The %s checksum type cannot be used with the %s checksum algorithm.", kind, a)
	}
	return &object.Checksum{Algorithm: a.String(), Type: kind}, nil
}

// findUpload returns the upload that a request names.
func (r *request) findUpload() (object.Upload, error) {
	return r.server.Uploads.Get(r.limited(), r.bucket, r.key, r.query.Get("uploadId"))
}

// uploadPart stores a part. It computes a checksum if the upload has one, even if the client sends none.
func (r *request) uploadPart() (any, error) {
	number, err := r.partNumber()
	if err != nil {
		return nil, err
	}
	u, err := r.findUpload()
	if err != nil {
		return nil, err
	}
	algorithm := ""
	if c := u.Attributes.Checksum; c != nil {
		algorithm = c.Algorithm
	}
	body, err := r.upload(algorithm)
	if err != nil {
		return nil, err
	}
	if got := body.checksum.algorithm.String(); algorithm != "" && got != algorithm {
		return nil, failf("InvalidRequest", "Checksum Type mismatch occurred, expected checksum Type: %s, actual checksum Type: %s",
			strings.ToLower(algorithm), strings.ToLower(got))
	}
	part := object.PartRequest{Key: u.Key, UploadID: u.ID, Number: number, Checksum: body.sum}
	p, err := r.server.Uploads.PutPart(r.lasting(), r.bucket, part, body, body.size)
	if err != nil {
		return nil, err
	}
	header := r.w.Header()
	header.Set("Etag", quoted(p.ETag))
	if c := p.Checksum; c != nil {
		header.Set(checksumPrefix+c.Algorithm, c.Value)
	}
	return nil, nil
}

// completion is the message that CompleteMultipartUpload takes.
type completion struct {
	Parts []struct {
		PartNumber int
		ETag       *string
		sums
	} `xml:"Part"`
}

// completeUpload makes an object from an upload's parts.
func (r *request) completeUpload() (any, error) {
	expected, err := r.expected()
	if err != nil {
		return nil, err
	}
	if expected != nil {
		r.Header.Del(checksumPrefix + expected.Algorithm) // it covers the object, not the message
	}
	var o object.Object
	err = r.message(func(text []byte) error {
		complete, err := r.completeRequest(text, expected)
		if err != nil {
			return err
		}
		o, err = r.server.Uploads.Complete(r.limited(), r.bucket, complete)
		return err
	})
	if err != nil {
		return nil, err
	}
	return struct {
		XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CompleteMultipartUploadResult"`
		Location string
		Bucket   string
		Key      string
		ETag     string
		typedSums
	}{
		Location: r.location(o.Key), Bucket: r.bucket.Name, Key: o.Key, ETag: quoted(o.ETag),
		typedSums: typedSumsOf(o.Attributes.Checksum),
	}, nil
}

// location returns an object's URL.
func (r *request) location(key string) string {
	return r.server.Origin + "/" + r.bucket.Name + "/" + sigv4.Escape(key)
}

func (r *request) completeRequest(text []byte, expected *object.Checksum) (object.CompleteRequest, error) {
	complete := object.CompleteRequest{Key: r.key, UploadID: r.query.Get("uploadId"), Size: -1, Origin: r.origin()}
	var err error
	if complete.Conditions, err = r.writeConditions(); err != nil {
		return complete, err
	}
	if sent := r.Header.Get("X-Amz-Mp-Object-Size"); sent != "" {
		if complete.Size, err = strconv.ParseInt(sent, 10, 64); err != nil || complete.Size < 0 {
			return complete, failf("InvalidRequest", "Value for x-amz-mp-object-size header is invalid.")
		}
	}
	var in completion
	if err := decodeXML(text, &in, "CompleteMultipartUpload", entries{"Part", object.MaxParts}); err != nil {
		return complete, err
	}
	if len(in.Parts) == 0 {
		return complete, fail("MalformedXML")
	}
	for _, p := range in.Parts {
		switch {
		case p.ETag == nil:
			return complete, fail("MalformedXML")
		case p.PartNumber < 1 || p.PartNumber > object.MaxParts:
			return complete, invalidArgument("PartNumber must be >= 1 and <= %d", object.MaxParts)
		}
		// A client may list a part twice, because it sent it twice and got two answers. The last one counts.
		if n := len(complete.Parts); n > 0 && complete.Parts[n-1].Number == p.PartNumber {
			complete.Parts = complete.Parts[:n-1]
		}
		complete.Parts = append(complete.Parts, object.CompletedPart{
			Number: p.PartNumber, ETag: strings.Trim(*p.ETag, `"`), Checksum: p.value(),
		})
	}
	wanted := strings.ToUpper(r.Header.Get("X-Amz-Checksum-Type"))
	complete.Checksum = func(u object.Upload, parts []object.Part) (*object.Checksum, error) {
		if c := u.Attributes.Checksum; wanted != "" && (c == nil || c.Type != wanted) {
			return nil, failf("InvalidRequest", "The upload was created using the %s checksum mode. The complete request must use the same checksum mode.", kindOf(c).ChecksumType)
		}
		return combined(u, parts, expected)
	}
	return complete, nil
}

// abortUpload removes an upload and its parts.
func (r *request) abortUpload() (any, error) {
	u, err := r.findUpload()
	if err != nil {
		return nil, err
	}
	if sent := r.Header.Get("X-Amz-If-Match-Initiated-Time"); sent != "" {
		t, err := http.ParseTime(sent)
		if err != nil || t.Unix() != u.CreatedAt.Std().Unix() {
			return nil, fail("PreconditionFailed")
		}
	}
	return nil, r.server.Uploads.Abort(r.limited(), r.bucket, u.Key, u.ID)
}

func (r *request) listParts() (any, error) {
	after, err := numberOf(r.query.Get("part-number-marker"), "part-number-marker", 0, object.MaxParts)
	if err != nil {
		return nil, err
	}
	limit, err := numberOf(r.query.Get("max-parts"), "max-parts", maxPage, maxPage)
	if err != nil {
		return nil, err
	}
	u, err := r.findUpload()
	if err != nil {
		return nil, err
	}
	page, err := r.server.Uploads.Parts(r.limited(), r.bucket, object.PartsRequest{Key: u.Key, UploadID: u.ID, After: after, Limit: limit})
	if err != nil {
		return nil, err
	}
	type part struct {
		PartNumber   int
		LastModified string
		ETag         string
		Size         int64
		sums
	}
	out := struct {
		XMLName              xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListPartsResult"`
		Bucket               string
		Key                  string
		ID                   string `xml:"UploadId"`
		Initiator            owner
		Owner                owner
		StorageClass         string
		PartNumberMarker     int
		NextPartNumberMarker int
		MaxParts             int
		IsTruncated          bool
		checksumKind
		Parts []part `xml:"Part"`
	}{
		Bucket: r.bucket.Name, Key: u.Key, ID: u.ID, Initiator: ownerOf(r.bucket), Owner: ownerOf(r.bucket),
		StorageClass: storageClasses[u.Tier], PartNumberMarker: after, MaxParts: limit, IsTruncated: page.Truncated,
		checksumKind: kindOf(u.Attributes.Checksum),
	}
	for _, p := range page.Parts {
		out.Parts = append(out.Parts, part{p.Number, formatTime(p.ModifiedAt.Std()), quoted(p.ETag), p.Size, sumsOf(p.Checksum)})
		out.NextPartNumberMarker = p.Number
	}
	return out, nil
}

// uploadsDocument answers ListMultipartUploads.
type uploadsDocument struct {
	XMLName            xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListMultipartUploadsResult"`
	Bucket             string
	KeyMarker          string
	UploadIDMarker     string `xml:"UploadIdMarker"`
	NextKeyMarker      string `xml:",omitempty"`
	NextUploadIDMarker string `xml:"NextUploadIdMarker,omitempty"`
	Prefix             string
	Delimiter          string   `xml:",omitempty"`
	EncodingType       encoding `xml:",omitempty"`
	MaxUploads         int
	IsTruncated        bool
	Uploads            []listedUpload `xml:"Upload"`
	CommonPrefixes     []commonPrefix
}

type listedUpload struct {
	Key          string
	ID           string `xml:"UploadId"`
	Initiator    owner
	Owner        owner
	StorageClass string
	Initiated    string
	checksumKind
}

func (r *request) listUploads() (any, error) {
	e, err := r.encoding()
	if err != nil {
		return nil, err
	}
	limit, err := numberOf(r.query.Get("max-uploads"), "max-uploads", maxPage, maxPage)
	if err != nil {
		return nil, err
	}
	l := object.UploadsRequest{
		ListRequest: object.ListRequest{
			Prefix: r.query.Get("prefix"), Delimiter: r.query.Get("delimiter"), After: r.query.Get("key-marker"), Limit: limit,
		},
		AfterID: r.query.Get("upload-id-marker"),
	}
	out := uploadsDocument{
		Bucket: r.bucket.Name, KeyMarker: e.encode(l.After), UploadIDMarker: l.AfterID, Delimiter: e.encode(l.Delimiter),
		Prefix: e.encode(l.Prefix), EncodingType: e, MaxUploads: limit,
	}
	if err := checkTexts(l.Prefix, l.Delimiter, l.After, l.AfterID); err != nil {
		return nil, err
	}
	page, err := r.server.Uploads.List(r.limited(), r.bucket, l)
	if err != nil {
		return nil, err
	}
	out.IsTruncated = page.Truncated
	if page.Truncated {
		out.NextKeyMarker = e.encode(page.Next)
		out.NextUploadIDMarker = page.NextID
	}
	for _, p := range page.Prefixes {
		out.CommonPrefixes = append(out.CommonPrefixes, commonPrefix{e.encode(p)})
	}
	for _, u := range page.Uploads {
		out.Uploads = append(out.Uploads, listedUpload{
			Key: e.encode(u.Key), ID: u.ID, Initiator: ownerOf(r.bucket), Owner: ownerOf(r.bucket),
			StorageClass: storageClasses[u.Tier], Initiated: formatTime(u.CreatedAt.Std()),
			checksumKind: kindOf(u.Attributes.Checksum),
		})
	}
	return out, nil
}
