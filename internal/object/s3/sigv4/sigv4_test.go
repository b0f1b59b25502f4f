package sigv4

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The examples of "Authenticating Requests (AWS Signature Version 4)" in the documentation of S3.
const (
	exampleAccess = "AKIAIOSFODNN7EXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	exampleScope  = exampleAccess + "/20130524/us-east-1/s3/aws4_request"
	exampleDate   = "20130524T000000Z"
	region        = "us-east-1"
)

var exampleTime = time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)

// example returns a signed request of the examples.
func example(method, target, host string, header map[string]string, signed, signature string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host = host
	r.Header.Set("X-Amz-Date", exampleDate)
	r.Header.Set("X-Amz-Content-Sha256", emptyHash)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	r.Header.Set("Authorization", algorithm+" Credential="+exampleScope+",SignedHeaders="+signed+",Signature="+signature)
	return r
}

// verify parses and verifies a request.
func verify(r *http.Request, secret string, now time.Time) (*Signature, error) {
	query := r.URL.Query()
	s, err := Parse(r, query, region, now)
	if err != nil || s == nil {
		return s, err
	}
	return s, s.Verify(r, query, secret)
}

const bucketHost = "examplebucket.s3.amazonaws.com"

func TestPublishedSignatures(t *testing.T) {
	for what, r := range map[string]*http.Request{
		"GET object": example("GET", "/test.txt", bucketHost, map[string]string{"Range": "bytes=0-9"},
			"host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
		"PUT object": example("PUT", "/test$file.text", bucketHost, map[string]string{
			"Date": "Fri, 24 May 2013 00:00:00 GMT", "X-Amz-Storage-Class": "REDUCED_REDUNDANCY",
			"X-Amz-Content-Sha256": "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
		}, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
		"GET bucket lifecycle": example("GET", "/?lifecycle", bucketHost, nil,
			"host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
		"list objects": example("GET", "/?max-keys=2&prefix=J", bucketHost, nil,
			"host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
	} {
		if _, err := verify(r, exampleSecret, exampleTime.Add(14*time.Minute)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := verify(r, exampleSecret+"x", exampleTime); code(err) != "SignatureDoesNotMatch" {
			t.Errorf("%s with another secret: %v", what, err)
		}
		for _, now := range []time.Time{exampleTime.Add(16 * time.Minute), exampleTime.Add(-16 * time.Minute)} {
			if _, err := verify(r, exampleSecret, now); code(err) != "RequestTimeTooSkewed" {
				t.Errorf("%s at %s: %v", what, now, err)
			}
		}
	}
}

func code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestPublishedPresignedURL(t *testing.T) {
	target := url.URL{Scheme: "https", Host: bucketHost, Path: "/test.txt"}
	got := Presign(Presigned{
		Method: "GET", URL: target, AccessKey: exampleAccess, Secret: exampleSecret, Region: region, At: exampleTime, Expires: 24 * time.Hour,
	})
	const signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
	if !strings.HasSuffix(got, "&X-Amz-Signature="+signature) {
		t.Errorf("presigned URL: %s", got)
	}
	r := httptest.NewRequest("GET", got, nil)
	for _, test := range []struct {
		now  time.Time
		want string
	}{
		{exampleTime, ""},
		{exampleTime.Add(24 * time.Hour), ""},
		{exampleTime.Add(24*time.Hour + time.Second), "AccessDenied"},
		{exampleTime.Add(-14 * time.Minute), ""},
		{exampleTime.Add(-16 * time.Minute), "AccessDenied"},
	} {
		if _, err := verify(r, exampleSecret, test.now); code(err) != test.want {
			t.Errorf("at %s: %v, want %q", test.now, err, test.want)
		}
	}
}

// chunkedExample returns the published upload in chunks, and its body.
func chunkedExample(withTrailer bool) (*http.Request, string) {
	header := map[string]string{
		"X-Amz-Content-Sha256": SignedChunks, "X-Amz-Storage-Class": "REDUCED_REDUNDANCY", "Content-Encoding": "aws-chunked",
		"X-Amz-Decoded-Content-Length": "66560",
	}
	signed := "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class"
	signatures := []string{
		"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9", "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
		"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
	}
	trailer := "\r\n"
	if withTrailer {
		header["X-Amz-Content-Sha256"] = SignedChunksTrailer
		header["X-Amz-Trailer"] = "x-amz-checksum-crc32c"
		signed = "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer"
		signatures = []string{
			"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e", "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
			"1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7", "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
		}
		trailer = "x-amz-checksum-crc32c:sOO8/Q==\n\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
	}
	r := example("PUT", "/examplebucket/chunkObject.txt", "s3.amazonaws.com", header, signed, signatures[0])
	r.ContentLength = 66824
	return r, "10000;chunk-signature=" + signatures[1] + "\r\n" + strings.Repeat("a", 65536) + "\r\n" +
		"400;chunk-signature=" + signatures[2] + "\r\n" + strings.Repeat("a", 1024) + "\r\n" +
		"0;chunk-signature=" + signatures[3] + "\r\n" + trailer
}

func TestPublishedChunks(t *testing.T) {
	for _, withTrailer := range []bool{false, true} {
		r, body := chunkedExample(withTrailer)
		s, err := verify(r, exampleSecret, exampleTime)
		if err != nil {
			t.Fatal(err)
		}
		b := s.Body(strings.NewReader(body), 66560, r.Header.Get("X-Amz-Trailer"))
		got, err := io.ReadAll(b)
		if err != nil || string(got) != strings.Repeat("a", 66560) {
			t.Errorf("with a trailer %v: %d bytes, %v", withTrailer, len(got), err)
		}
		if want := map[bool]string{true: "sOO8/Q=="}[withTrailer]; b.Trailer() != want {
			t.Errorf("trailer = %q, want %q", b.Trailer(), want)
		}
	}
}

// TestChangedChunksAreRefused changes, cuts off, repeats and extends bodies in chunks.
func TestChangedChunksAreRefused(t *testing.T) {
	for _, withTrailer := range []bool{false, true} {
		r, body := chunkedExample(withTrailer)
		first := strings.Index(body, "400;")
		for what, changed := range map[string]string{
			"a byte":                   strings.Replace(body, "aaaa", "aaba", 1),
			"the last byte":            body[:first+400] + "b" + body[first+401:],
			"a size":                   strings.Replace(body, "400;", "3ff;", 1),
			"no end":                   body[:len(body)-90],
			"the first chunk alone":    body[:first] + "0;" + strings.SplitN(body, "\r\n0;", 2)[1],
			"the first chunk twice":    body[:first] + body,
			"chunks in another order":  body[first:first+94+1024] + body[:first],
			"more after the end":       body + "x",
			"a request after the end":  body + "GET / HTTP/1.1\r\n\r\n",
			"no signature":             strings.Replace(body, ";chunk-signature=", ";other=", 1),
			"no extension":             "10000\r\n" + body[strings.Index(body, "\n")+1:],
			"an unsigned chunk inside": strings.Replace(body, "\r\n400;", "\r\n1\r\nx\r\n400;", 1),
			"a negative size":          "-" + body,
			"a huge size":              "ffffffffffffffff" + body[5:],
			"leading zeros":            strings.Repeat("0", 40) + body,
			"an endless line":          strings.Repeat("1", 1<<20),
			"a trailer nobody asked":   strings.TrimSuffix(body, "\r\n") + "x-amz-meta-a:b\r\n\r\n",
			"a large trailer":          strings.TrimSuffix(body, "\r\n") + strings.Repeat("x-amz-checksum-crc32c:a\r\n", 1000) + "\r\n",
		} {
			s, err := verify(r, exampleSecret, exampleTime)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(s.Body(strings.NewReader(changed), 66560, r.Header.Get("X-Amz-Trailer")))
			if code(err) == "" {
				t.Errorf("%s, with a trailer %v: %d bytes, %v", what, withTrailer, len(got), err)
			}
		}
	}
}

// TestTrailerIsBounded has a client send empty lines before the trailer's signature, one of which may be there.
func TestTrailerIsBounded(t *testing.T) {
	r, body := chunkedExample(true)
	for lines, want := range map[int]string{0: "", 1: "", maxTrailer: "MalformedTrailerError"} {
		s, err := verify(r, exampleSecret, exampleTime)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(body, trailerSignature, strings.Repeat("\n", lines)+trailerSignature, 1)
		if _, err := io.ReadAll(s.Body(strings.NewReader(changed), 66560, r.Header.Get("X-Amz-Trailer"))); code(err) != want {
			t.Errorf("%d empty lines: %v, want %q", lines, err, want)
		}
	}
}

// TestDecodedSizeIsEnforced has a body that is longer or shorter than announced.
func TestDecodedSizeIsEnforced(t *testing.T) {
	body := "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"
	for size, want := range map[int64]string{5: "", 4: "IncompleteBody", 6: "IncompleteBody", 0: "IncompleteBody"} {
		s := &Signature{Payload: UnsignedChunksTrailer}
		if _, err := io.ReadAll(s.Body(strings.NewReader(body), size, "x-amz-checksum-crc32")); code(err) != want {
			t.Errorf("size %d: %v, want %q", size, err, want)
		}
	}
}

// TestDowngradesAreRefused tries to have less verified than was signed.
func TestDowngradesAreRefused(t *testing.T) {
	signed := func() *http.Request { r, _ := chunkedExample(false); return r }
	get := func() *http.Request {
		return example("GET", "/test.txt", bucketHost, map[string]string{"Range": "bytes=0-9"},
			"host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
	}
	for what, r := range map[string]*http.Request{
		"unsigned payload":      change(signed(), func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", Unsigned) }),
		"unsigned chunks":       change(signed(), func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", UnsignedChunksTrailer) }),
		"another size":          change(signed(), func(r *http.Request) { r.Header.Set("X-Amz-Decoded-Content-Length", "1") }),
		"a header more":         change(get(), func(r *http.Request) { r.Header.Set("X-Amz-Acl", "public-read") }),
		"another method":        change(get(), func(r *http.Request) { r.Method = "DELETE" }),
		"another host":          change(get(), func(r *http.Request) { r.Host = "other" }),
		"another path":          change(get(), func(r *http.Request) { r.URL.Path = "/other" }),
		"a query":               change(get(), func(r *http.Request) { r.URL.RawQuery = "acl" }),
		"another range":         change(get(), func(r *http.Request) { r.Header.Set("Range", "bytes=0-99") }),
		"the query, too":        change(get(), func(r *http.Request) { r.URL.RawQuery = "X-Amz-Signature=0" }),
		"two authorizations":    change(get(), func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) }),
		"two signatures":        replaced(get(), ",Signature=", ",Signature=00,Signature="),
		"no host signed":        replaced(get(), "host;", ""),
		"a header signed twice": replaced(get(), "host;range;", "host;range;range;"),
		"in two cases":          replaced(get(), "host;range;", "host;Range;range;"),
		"ECDSA":                 replaced(get(), algorithm, "AWS4-ECDSA-P256-SHA256"),
		"another service":       replaced(get(), "/s3/", "/iam/"),
		"another region":        replaced(get(), "us-east-1", "eu-west-1"),
		"another day":           replaced(get(), "20130524", "20130525"),
		"a signature in upper":  change(get(), func(r *http.Request) { r.Header.Set("Authorization", strings.ToUpper(r.Header.Get("Authorization"))) }),
		"an empty signature": change(get(), func(r *http.Request) {
			r.Header.Set("Authorization", strings.Split(r.Header.Get("Authorization"), ",Sig")[0]+",Signature=")
		}),
		"a session token":       change(get(), func(r *http.Request) { r.Header.Set("X-Amz-Security-Token", "x") }),
		"half a presigned URL":  change(httptest.NewRequest("GET", "/test.txt?X-Amz-Signature=00", nil), func(*http.Request) {}),
		"a presigned URL twice": change(httptest.NewRequest("GET", "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="+url.QueryEscape(exampleScope)+"&X-Amz-Date="+exampleDate+"&X-Amz-Expires=60&X-Amz-Expires=600&X-Amz-SignedHeaders=host&X-Amz-Signature=00", nil), func(*http.Request) {}),
	} {
		if s, err := verify(r, exampleSecret, exampleTime); code(err) == "" {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
	}
}

// TestSignedHeadersCannotMultiplyARequest names one long header again and again. Nobody has signed this request.
func TestSignedHeadersCannotMultiplyARequest(t *testing.T) {
	for _, names := range []string{strings.Repeat(";range", 600), ";Range;rAnge;raNge;ranGe;rangE"} {
		r := example("GET", "/test.txt", bucketHost, map[string]string{"Range": strings.Repeat("x", 4<<10)}, "host;x-amz-content-sha256;x-amz-date"+names, "00")
		if _, err := verify(r, exampleSecret, exampleTime); code(err) != "InvalidArgument" {
			t.Errorf("%.20s: %v", names, err)
		}
	}
}

func change(r *http.Request, how func(*http.Request)) *http.Request {
	how(r)
	return r
}

func replaced(r *http.Request, from, to string) *http.Request {
	r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), from, to, 1))
	return r
}

func FuzzSignature(f *testing.F) {
	f.Add("GET", "/test.txt", "a=b&X-Amz-Signature=x", algorithm+" Credential="+exampleScope+",SignedHeaders=host,Signature=00", exampleDate)
	f.Add("PUT", "/%zz", "X-Amz-Credential=a%2Fb", "AWS4-HMAC-SHA256 ", "")
	f.Fuzz(func(t *testing.T, method, path, query, authorization, date string) {
		r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}, Host: "x"}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		r.Header.Set("X-Amz-Date", date)
		r.Header.Set("X-Amz-Content-Sha256", emptyHash)
		if s, err := verify(r, "no secret that the fuzzer knows", exampleTime); s != nil && err == nil {
			t.Errorf("accepted: %+v", s)
		}
	})
}

func FuzzChunks(f *testing.F) {
	for _, withTrailer := range []bool{false, true} {
		_, body := chunkedExample(withTrailer)
		f.Add([]byte(body), int64(66560), true)
	}
	f.Add([]byte("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"), int64(5), false)
	f.Fuzz(func(t *testing.T, body []byte, size int64, signed bool) {
		s := &Signature{Payload: UnsignedChunksTrailer}
		if signed {
			s = &Signature{Payload: SignedChunksTrailer, key: []byte("key")}
		}
		got, err := io.ReadAll(s.Body(bytes.NewReader(body), size, "x-amz-checksum-crc32"))
		switch {
		case err == nil && signed:
			t.Errorf("%d bytes without a signature", len(got))
		case err == nil && int64(len(got)) != size, int64(len(got)) > max(size, 0), len(got) > len(body):
			t.Errorf("%d of %d bytes, %v", len(got), size, err)
		}
	})
}

func TestPublishedPolicy(t *testing.T) {
	policy := strings.ReplaceAll(`{ "expiration": "2015-12-30T12:00:00.000Z",
  "conditions": [
    {"bucket": "sigv4examplebucket"},
    ["starts-with", "$key", "user/user1/"],
    {"acl": "public-read"},
    {"success_action_redirect": "http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html"},
    ["starts-with", "$Content-Type", "image/"],
    {"x-amz-meta-uuid": "14365123651274"},
    {"x-amz-server-side-encryption": "AES256"},
    ["starts-with", "$x-amz-meta-tag", ""],

    {"x-amz-credential": "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"},
    {"x-amz-algorithm": "AWS4-HMAC-SHA256"},
    {"x-amz-date": "20151229T000000Z" }
  ]
}`, "\n", "\r\n")
	fields := map[string]string{
		"policy": base64.StdEncoding.EncodeToString([]byte(policy)), "x-amz-algorithm": algorithm, "x-amz-date": "20151229T000000Z",
		"x-amz-credential": exampleAccess + "/20151229/us-east-1/s3/aws4_request",
		"x-amz-signature":  "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e",
	}
	signed := time.Date(2015, 12, 29, 0, 0, 0, 0, time.UTC)
	p, err := ParsePolicy(fields, region, signed)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Verify(exampleSecret); err != nil || p.AccessKey != exampleAccess {
		t.Errorf("%s: %v", p.AccessKey, err)
	}
	if err := p.Verify("another"); code(err) != "SignatureDoesNotMatch" {
		t.Errorf("another secret: %v", err)
	}
	if _, err := ParsePolicy(fields, region, signed.AddDate(0, 0, 8)); code(err) != "AccessDenied" {
		t.Errorf("a week later: %v", err)
	}
}
