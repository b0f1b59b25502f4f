package idempotency

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"steward/internal/seal"
)

// sealPurpose binds sealed responses to this package.
const sealPurpose = "idempotency.response"

// head begins a sealed response, as JSON. The body follows as it is: it may be large, and we seal it
// while the transaction waits.
type head struct {
	Header http.Header
	// Body is the body of a response that an earlier version stored.
	Body []byte `json:",omitempty"`
}

// response buffers a response until its transaction is committed. It implements http.ResponseWriter.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(p []byte) (int, error) { return r.body.Write(p) }

func (r *response) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(r.status)
	w.Write(r.body.Bytes())
}

// seal returns header and body as we store them.
func (r *response) seal(ring *seal.Ring) ([]byte, error) {
	plain, err := json.Marshal(head{Header: r.header})
	if err != nil {
		return nil, fmt.Errorf("encode response: %w", err)
	}
	return ring.Seal(sealPurpose, append(plain, r.body.Bytes()...)), nil
}

// openResponse opens a stored response.
func openResponse(ring *seal.Ring, status int, sealed []byte) (*response, error) {
	plain, err := ring.Open(sealPurpose, sealed)
	if err != nil {
		return nil, fmt.Errorf("open stored response: %w", err)
	}
	var h head
	dec := json.NewDecoder(bytes.NewReader(plain))
	if err := dec.Decode(&h); err != nil {
		return nil, fmt.Errorf("decode stored response: %w", err)
	}
	res := &response{header: h.Header, status: status}
	res.body.Write(h.Body)
	res.body.Write(plain[dec.InputOffset():])
	return res, nil
}
