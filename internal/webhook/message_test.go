package webhook

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestMessagesAreWrittenAsNetHTTPDoes draws deliveries and compares what a server reads of them: from a wire, and from net/http.
func TestMessagesAreWrittenAsNetHTTPDoes(outer *testing.T) {
	names := rapid.OneOf(rapid.SampledFrom([]string{"content-type", "user-agent", "connection", "x-a", "x-b", "cookie", "te", "host"}),
		rapid.StringMatching(`[a-z!#$%&'*+.^_|~-]{1,8}`))
	values := rapid.OneOf(rapid.SampledFrom([]string{"", "x-a, close", " spaces around\t"}), rapid.StringMatching(`[ -~\t<>&"\\é☃]{0,20}`))
	rapid.Check(outer, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 9000).Draw(t, "body")
		if rapid.Bool().Draw(t, "empty") {
			body = nil
		}
		m := newMessage(Attempt{
			Destination: &Destination{Config: Config{
				URL: "http://" + rapid.SampledFrom([]string{"a.example", "a_b:81", "[::1]:9", "10.0.0.1"}).Draw(t, "host") +
					rapid.SampledFrom([]string{"", "/", "/a/b?c=d&e", "/%2f?", "/é?q=ü", "/x#part", "?only"}).Draw(t, "path"),
				Headers: rapid.MapOf(rapid.SampledFrom([]string{"x-own", "X-A", "User-Agent"}), values).Draw(t, "own"),
			}},
			Signer: NewSigner([]byte("key")), Body: body, Delivery: &Delivery{ID: "whdv_x", Retries: 3},
			Receipt: &Receipt{
				ID: "whrc_x", headerText: headerText(fieldsOf(rapid.MapOf(names, values).Draw(t, "headers"))),
				Method: rapid.SampledFrom([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}).Draw(t, "method"),
			},
		}, 1_794_731_400)
		if !m.simple() {
			t.Fatal("it is not simple")
		}
		u, err := url.Parse(m.url)
		must(failer{outer, t}, err)
		var ours, theirs bytes.Buffer
		to := bufio.NewWriter(&ours)
		must(failer{outer, t}, m.write(to, newAddress(u).host, newAddress(u).uri))
		req, err := m.request(context.Background())
		must(failer{outer, t}, err)
		must(failer{outer, t}, req.Write(&theirs))
		if diff := cmp.Diff(readBack(failer{outer, t}, &theirs), readBack(failer{outer, t}, &ours)); diff != "" {
			t.Errorf("-net/http +wire:\n%s", diff)
		}
	})
}

// readBack is what a server gets to know of a request, and that nothing follows it.
func readBack(t testing.TB, from io.Reader) (seen struct {
	Method, URI, Host, Body string
	Length                  int64
	Header                  http.Header
},
) {
	in := bufio.NewReader(from)
	r, err := http.ReadRequest(in)
	must(t, err)
	body, err := io.ReadAll(r.Body)
	must(t, err)
	if in.Buffered() > 0 {
		t.Errorf("%d bytes follow", in.Buffered())
	}
	seen.Method, seen.URI, seen.Host, seen.Body = r.Method, r.RequestURI, r.Host, string(body)
	seen.Length, seen.Header = r.ContentLength, r.Header
	return seen
}
