package s3

import (
	"bytes"
	"io"
	"mime/multipart"
	"testing"
	"time"
)

// FuzzForm reads forms, and checks their policies, whatever they contain.
func FuzzForm(f *testing.F) {
	f.Add([]byte("--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\na${filename}\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b\"\r\n\r\nhello\r\n--x--\r\n"),
		`{"expiration":"2030-01-01T00:00:00Z","conditions":[{"bucket":"docs"},["starts-with","$key",""],["content-length-range",0,"5"]]}`)
	f.Fuzz(func(t *testing.T, body []byte, policy string) {
		parsed, err := readForm(multipart.NewReader(bytes.NewReader(body), "x"))
		if err != nil {
			return
		}
		parsed.fields["policy"] = policy
		size, err := checkPolicy(parsed.fields, "docs", time.Unix(0, 0))
		if err == nil && (size.min < 0 || size.max > maxObject) {
			t.Errorf("the file may have %+v", size)
		}
		n, err := io.Copy(io.Discard, &formFile{r: parsed.file, size: size})
		if err == nil && (n > size.max || n < size.min) {
			t.Errorf("%d bytes, allowed are %+v", n, size)
		}
	})
}

// FuzzXML decodes messages, whatever they contain.
func FuzzXML(f *testing.F) {
	f.Add([]byte(`<Delete xmlns="x"><Quiet>true</Quiet><Object><Key>a</Key><VersionId>null</VersionId></Object></Delete>`))
	f.Add([]byte(`<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>`))
	f.Add([]byte(`<?xml version="1.0"?><CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"x"</ETag><ChecksumCRC32>y</ChecksumCRC32></Part></CompleteMultipartUpload>`))
	f.Add([]byte(`<!DOCTYPE a [<!ENTITY b "c">]><Delete>&b;</Delete>`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var d deletion
		var in tagging
		var c completion
		failed := 0
		for root, to := range map[string]any{"Delete": &d, "Tagging": &in, "CompleteMultipartUpload": &c} {
			if err := decodeXML(text, to, root, entries{"Object", maxDelete}); err != nil {
				failed++
			}
		}
		if len(d.Objects) > maxDelete {
			t.Errorf("%d objects", len(d.Objects))
		}
		if failed < 2 {
			t.Errorf("one document is taken for two: %q", text)
		}
		for _, tag := range in.Tags {
			if checkTags(in.Tags) == nil && (len(tag.Key) > 4*maxTagKey || len(tag.Value) > 4*maxTagValue) {
				t.Errorf("a tag of %d and %d bytes", len(tag.Key), len(tag.Value))
			}
		}
	})
}
