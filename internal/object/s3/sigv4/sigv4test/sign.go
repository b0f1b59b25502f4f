// Package sigv4test signs requests in tests. We wrote it independently from package sigv4, so that the two
// check each other.
package sigv4test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Signer signs requests with a bucket's credentials.
type Signer struct {
	Access, Secret string
	// Region defaults to us-east-1.
	Region string
	// At is the time to sign with. It defaults to now.
	At time.Time
	// Payload is the value for X-Amz-Content-Sha256: the body's hash in hex, or another S3 value.
	Payload string
	// Unsigned lists headers, in lower case, to leave out of the signature.
	Unsigned []string
}

// Hash returns a body's hash in hex.
func Hash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// Sign signs a request, with the path as it is sent. It returns the signature, and a function that signs
// the body's chunks and trailer.
func (s Signer) Sign(r *http.Request) (signature string, sign func(kind, previous, hashes string) string) {
	if s.Region == "" {
		s.Region = "us-east-1"
	}
	if s.At.IsZero() {
		s.At = time.Now()
	}
	at := s.At.UTC().Format("20060102T150405Z")
	scope := at[:8] + "/" + s.Region + "/s3/aws4_request"
	r.Header.Set("X-Amz-Date", at)
	r.Header.Set("X-Amz-Content-Sha256", s.Payload)
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	lines := map[string]string{"host": host}
	for name, values := range r.Header {
		name = strings.ToLower(name)
		if (strings.HasPrefix(name, "x-amz-") || strings.HasPrefix(name, "content-")) && !slices.Contains(s.Unsigned, name) {
			lines[name] = strings.Join(strings.Fields(strings.Join(values, ",")), " ")
		}
	}
	if r.ContentLength > 0 {
		lines["content-length"] = strconv.FormatInt(r.ContentLength, 10)
	}
	var names []string
	for name := range lines {
		names = append(names, name)
	}
	slices.Sort(names)
	headers := ""
	for _, name := range names {
		headers += name + ":" + lines[name] + "\n"
	}
	path := r.URL.EscapedPath()
	if r.URL.Opaque != "" { // //host/path
		_, path, _ = strings.Cut(strings.TrimPrefix(r.URL.Opaque, "//"), "/")
		path = "/" + path
	}
	query := strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20")
	signed := strings.Join(names, ";")
	canonical := strings.Join([]string{r.Method, path, query, headers, signed, s.Payload}, "\n")
	key := []byte("AWS4" + s.Secret)
	for _, text := range []string{at[:8], s.Region, "s3", "aws4_request"} {
		key = mac(key, text)
	}
	signature = hex.EncodeToString(mac(key, strings.Join([]string{"AWS4-HMAC-SHA256", at, scope, Hash(canonical)}, "\n")))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+s.Access+"/"+scope+", SignedHeaders="+signed+", Signature="+signature)
	return signature, func(kind, previous, hashes string) string {
		return hex.EncodeToString(mac(key, strings.Join([]string{kind, at, scope, previous, hashes}, "\n")))
	}
}

func mac(key []byte, text string) []byte {
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(text))
	return hash.Sum(nil)
}
