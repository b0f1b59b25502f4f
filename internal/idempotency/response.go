package idempotency

import (
	"bytes"
	"net/http"
)

// content is what is sealed of a response.
type content struct {
	Header http.Header
	Body   []byte
}

// response buffers a response until its transaction is committed. It implements
// http.ResponseWriter.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(p []byte) (int, error) { return r.body.Write(p) }

func (r *response) writeTo(w http.ResponseWriter) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.status)
	w.Write(r.body.Bytes())
}
