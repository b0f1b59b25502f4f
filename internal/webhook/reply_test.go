package webhook

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestPlainHeadsAreReadAsNetHTTPDoes draws answers, most of them plain and some with something odd, and compares: whatever is taken to be
// plain says the same to net/http, and what follows it stays.
func TestPlainHeadsAreReadAsNetHTTPDoes(t *testing.T) {
	odd := func(t *rapid.T, what string, usual, others []string) string {
		if rapid.IntRange(0, 9).Draw(t, what+"?") == 0 {
			usual = others
		}
		return rapid.SampledFrom(usual).Draw(t, what)
	}
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.StringMatching(`[a-z\r\n]{0,20}`).Draw(t, "body")
		head := odd(t, "status", []string{"HTTP/1.1 200 OK", "HTTP/1.1 404 Not Found", "HTTP/1.1 503 "}, []string{
			"HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified", "HTTP/1.1 100 Continue", "HTTP/1.1 101 x", "HTTP/1.0 200 OK", "HTTP/1.1 200",
			"HTTP/2.0 200 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 +20 OK", "http/1.1 200 OK", " HTTP/1.1 200 OK", "HTTP/1.1  200 OK", "HTTP/1.1 999 \xff", "",
		}) + "\r\n"
		for range rapid.IntRange(0, 4).Draw(t, "headers") {
			name := odd(t, "name", []string{"Date", "x-a", "Content-Type", "X-REQUEST-ID", "server"}, []string{
				"Connection", "Transfer-Encoding", "Trailer", "Pragma", "Content-Length", "", " x", "x ", "x\t", "é", "a b", "a\x00b", "(x)", "x_y", "Set-Cookie",
			})
			value := odd(t, "value", []string{"text/plain; charset=utf-8", "Sun, 15 Nov 2026 08:00:00 GMT", "", "a:b", `"quoted"`}, []string{
				"close", "keep-alive", "chunked", "no-cache", "é", "\xff", "a\x00b", "a\rb", "a\nb", "\x7f", "1", "folded\r\n on", "\ttab\tbed\t", " spaced ",
			})
			head += name + odd(t, "colon", []string{": ", ":"}, []string{":\t ", " : ", "", "::"}) + value + odd(t, "end", []string{"\r\n"}, []string{"\n", "\r", " \r\n", ""})
		}
		length := fmt.Sprint(len(body))
		head += odd(t, "length", []string{"Content-Length: " + length, "content-length:" + length}, []string{
			"X: y", "Content-Length: +" + length, "Content-Length: -1", "Content-Length: 0x1", "Content-Length:", "Content-Length: 9999999999999999999",
			"Content-Length: " + length + "\r\nContent-Length: " + length, "Content-Length: " + length + ", " + length, "Content-Length: " + length + " 1",
			"Content-Length: " + length + "\r\nContent-Length: 7", "Content-Length : " + length, "Content-Length: 0" + length,
		}) + odd(t, "last", []string{"\r\n\r\n"}, []string{"\n\n", "\r\n\n", "\r\n", "\n\r\n", "\r\n \r\n\r\n"})
		all := head + body + "HTTP/1.1 200 another"

		h, ok := readPlain([]byte(all))
		if !ok {
			return
		}
		plain++
		in := bufio.NewReader(strings.NewReader(all))
		want, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%q is %+v, but to net/http %v", all, h, err)
		}
		wantBody, err := io.ReadAll(want.Body)
		if err != nil || want.Close || want.StatusCode != h.status || cmp.Diff(flatten(want.Header), h.headers, cmp.AllowUnexported(field{})) != "" {
			t.Fatalf("%q is %+v, but to net/http %+v, %v", all, h, want, err)
		}
		wantRest, _ := io.ReadAll(in)
		from := strings.NewReader(all[h.size:])
		gotBody, err := io.ReadAll(&plainBody{from, h.length})
		gotRest, _ := io.ReadAll(from)
		if err != nil || string(gotBody) != string(wantBody) || string(gotRest) != string(wantRest) {
			t.Fatalf("%q: body %q and then %q, want %q and then %q, %v", all, gotBody, gotRest, wantBody, wantRest, err)
		}
	})
	if plain == 0 {
		t.Error("nothing was plain")
	}
}

// TestUsualAnswersArePlain: what common servers say is read the short way.
func TestUsualAnswersArePlain(t *testing.T) {
	for _, head := range []string{
		"HTTP/1.1 200 OK\r\nDate: Sun, 15 Nov 2026 08:00:00 GMT\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 202 Accepted\r\nServer: nginx\r\nDate: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nX-Request-Id: a\r\n\r\n{}",
		"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nContent-Length: 3\r\n\r\nno\n",
	} {
		if _, plain := readPlain([]byte(head)); !plain {
			t.Errorf("%q is not plain", head)
		}
	}
	body := &plainBody{strings.NewReader("ab"), 3}
	if got, err := io.ReadAll(body); string(got) != "ab" || err != io.ErrUnexpectedEOF {
		t.Errorf("a body that breaks off: %q, %v", got, err)
	}
}

func BenchmarkAnswerHead(b *testing.B) {
	const head = "HTTP/1.1 200 OK\r\nDate: Sun, 15 Nov 2026 08:00:00 GMT\r\nContent-Length: 2\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nok"
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			readPlain([]byte(head))
		}
	})
	b.Run("net/http", func(b *testing.B) {
		b.ReportAllocs()
		from := strings.NewReader(head)
		in := bufio.NewReader(from)
		for b.Loop() {
			from.Reset(head)
			in.Reset(from)
			resp, err := http.ReadResponse(in, nil)
			must(b, err)
			replyOf(resp)
		}
	})
}
