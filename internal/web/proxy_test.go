package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"steward/internal/web"
)

func TestRemoteAddrBehindTrustedProxies(t *testing.T) {
	trusted := web.Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		trusted   web.Proxies
		peer      string
		forwarded []string
		want      string
	}{
		"no trusted proxies":            {nil, "10.0.0.1:5", []string{"1.2.3.4"}, "10.0.0.1:5"},
		"peer is not trusted":           {trusted, "9.9.9.9:5", []string{"1.2.3.4"}, "9.9.9.9:5"},
		"one proxy":                     {trusted, "10.0.0.1:5", []string{"1.2.3.4"}, "1.2.3.4:0"},
		"forged by the client":          {trusted, "10.0.0.1:5", []string{"6.6.6.6, 1.2.3.4"}, "1.2.3.4:0"},
		"two proxies":                   {trusted, "10.0.0.1:5", []string{"6.6.6.6, 1.2.3.4, 10.0.0.2"}, "1.2.3.4:0"},
		"two headers":                   {trusted, "10.0.0.1:5", []string{"6.6.6.6", "1.2.3.4"}, "1.2.3.4:0"},
		"only proxies":                  {trusted, "10.0.0.1:5", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3:0"},
		"no header":                     {trusted, "10.0.0.1:5", nil, "10.0.0.1:5"},
		"not an address":                {trusted, "10.0.0.1:5", []string{"1.2.3.4, unknown"}, "10.0.0.1:5"},
		"not an address, then a proxy":  {trusted, "10.0.0.1:5", []string{"1.2.3.4, _hidden, 10.0.0.2"}, "10.0.0.2:0"},
		"with a port":                   {trusted, "10.0.0.1:5", []string{"1.2.3.4:567"}, "1.2.3.4:0"},
		"IPv6 in brackets, with a port": {trusted, "[fd00::1]:5", []string{"[2001:db8::7]:567"}, "[2001:db8::7]:0"},
		"IPv6 in brackets":              {trusted, "[fd00::1]:5", []string{"[2001:db8::7]"}, "[2001:db8::7]:0"},
		"IPv4 in IPv6":                  {trusted, "[::ffff:10.0.0.1]:5", []string{"::ffff:1.2.3.4"}, "1.2.3.4:0"},
		"address with a zone":           {trusted, "10.0.0.1:5", []string{`fe80::1%"evil`}, "[fe80::1]:0"},
		"an empty header":               {trusted, "10.0.0.1:5", []string{""}, "10.0.0.1:5"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr })
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = c.peer
			r.Header["X-Forwarded-For"] = c.forwarded
			web.Behind(c.trusted, next).ServeHTTP(httptest.NewRecorder(), r)
			if got != c.want || r.RemoteAddr != c.peer {
				t.Errorf("RemoteAddr is %s, want %s; that of the original request is %s", got, c.want, r.RemoteAddr)
			}
		})
	}
}
