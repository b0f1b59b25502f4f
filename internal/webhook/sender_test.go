package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestWhatIsSent compares a forwarded request with the original one, and checks the signature by a computation of its own.
func TestWhatIsSent(t *testing.T) {
	h := newHouse(t, dbtest.Open(t, db.SQLite))
	h.run()
	s := newSink(t, answer(200))
	w, path := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "`+s.URL+`/hook?a=b", "headers": {"X-Own": "mine", "X-Both": "config"}}`)
	body := "\x00\xff raw"
	r := httptest.NewRequest("PATCH", path+"?not=forwarded", strings.NewReader(body))
	for name, value := range map[string]string{
		"X-Custom": "kept", "X-Both": "original", "Cookie": "a=b", "Authorization": "Bearer x", "Connection": "X-Hop, close", "X-Hop": "1",
		"Te": "trailers", "Webhook-Id": "theirs", "Content-Type": "application/x-raw",
	} {
		r.Header.Set(name, value)
	}
	if rec := h.request(r); rec.Code != 200 {
		t.Fatalf("status %d", rec.Code)
	}
	eventually(t, "delivery", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == 1 })
	d := h.deliveries(alice, w.ID, Filter{})[0]
	got := s.requests[0]
	if got.Method != "PATCH" || s.got()[0] != body || got.URL.String() != "/hook?a=b" {
		t.Errorf("got %s %s %q", got.Method, got.URL, s.got()[0])
	}
	for name, want := range map[string]string{
		"X-Custom": "kept", "X-Both": "config", "X-Own": "mine", "Cookie": "", "Authorization": "", "X-Hop": "", "Te": "",
		"Webhook-Id": d.ReceiptID, "Steward-Delivery": d.ID, "Steward-Attempt": "0", "Content-Type": "application/x-raw",
		"Webhook-Timestamp": "1794731400",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(to.Secret, "whsec_"))
	must(t, err)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(d.ReceiptID + ".1794731400." + body))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); got.Header.Get("Webhook-Signature") != want {
		t.Errorf("signature %s, want %s", got.Header.Get("Webhook-Signature"), want)
	}
}

// TestKnownSignature is the example of the Standard Webhooks specification.
func TestKnownSignature(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	must(t, err)
	got := NewSigner(key).sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("got %s", got)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	s := NewSender(Egress{Loopback: true}, newClock)
	defer s.Close()
	seen := map[string]bool{}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen[r.RemoteAddr] = true
		w.Write(make([]byte, 100<<10))
	}))
	defer target.Close()
	for range 5 {
		if out := s.Send(t.Context(), attemptTo(t, target.URL)); out.Error != "" || len(responseOf(t, out.Response).Body) != keptBody*len("\uFFFD") {
			t.Fatalf("outcome %v", out.Error)
		}
	}
	if len(seen) != 2 { // the first one finds out what the origin speaks
		t.Errorf("%d connections for 5 deliveries", len(seen))
	}
}

// TestNoProxy: one from the environment would lead past the guard.
func TestNoProxy(t *testing.T) {
	if NewSender(Egress{}, newClock).transport.Proxy != nil {
		t.Error("deliveries go by a proxy")
	}
}

func TestHTTP2(t *testing.T) {
	s := NewSender(Egress{Loopback: true}, newClock)
	target := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Proto)) }))
	target.EnableHTTP2 = true
	target.StartTLS()
	defer target.Close()
	s.transport.TLSClientConfig = target.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	if out := s.Send(t.Context(), attemptTo(t, target.URL)); out.Error != "" || responseOf(t, out.Response).Body != "HTTP/2.0" {
		t.Errorf("outcome %+v", out)
	}
}

func attemptTo(t *testing.T, url string) Attempt {
	return Attempt{
		Destination: &Destination{Config: config(t, `{"url": "`+url+`"}`)}, Signer: NewSigner([]byte("k")),
		Receipt: &Receipt{ID: "whrc_x", Method: "POST"}, Body: []byte("b"), Delivery: &Delivery{ID: "whdv_x"},
	}
}

// TestEgress makes real dial attempts. Each refused one must be refused by the guard, before anything is sent.
func TestEgress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).AddrPort().Port()
	guarded := NewSender(Egress{}, newClock)
	for _, host := range []string{
		"127.0.0.1", "127.8.9.10", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "10.0.0.1",
		"172.16.0.1", "192.168.1.1", "169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "[fe80::1]", "[fc00::1]",
		"100.64.0.1",
		"100.100.100.200", "168.63.129.16",
		"[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "224.0.0.1",
		"255.255.255.255", "198.18.0.1", "192.0.2.1",
	} {
		out := guarded.Send(t.Context(), attemptTo(t, "http://"+host+":"+portText(port)+"/"))
		if !strings.HasPrefix(out.Error, errEgress.Error()) {
			t.Errorf("%s: %q", host, out.Error)
		}
	}
	for _, host := range []string{"localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1"} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if out := guarded.Send(ctx, attemptTo(t, "http://"+host+":"+portText(port)+"/")); out.Error == "" || out.Response != nil {
			t.Errorf("%s was reached", host)
		}
		cancel()
	}
	if got := accepted(listener); got != 0 {
		t.Errorf("%d connections were made", got)
	}
}

func portText(port uint16) string {
	return netip.AddrPortFrom(netip.IPv4Unspecified(), port).String()[len("0.0.0.0:"):]
}

// accepted counts the connections that wait at a listener.
func accepted(l net.Listener) (n int) {
	l.(*net.TCPListener).SetDeadline(time.Now().Add(100 * time.Millisecond))
	for {
		conn, err := l.Accept()
		if err != nil {
			return n
		}
		conn.Close()
		n++
	}
}

func TestEgressSettings(t *testing.T) {
	allow := func(cidrs ...string) (list []netip.Prefix) {
		for _, c := range cidrs {
			list = append(list, netip.MustParsePrefix(c))
		}
		return list
	}
	for name, test := range map[string]struct {
		e       Egress
		address string
		ok      bool
	}{
		"public":                 {Egress{}, "93.184.216.34:80", true},
		"public v6":              {Egress{}, "[2606:2800:220:1::1]:443", true},
		"loopback when allowed":  {Egress{Loopback: true}, "127.0.0.1:80", true},
		"loopback v6":            {Egress{Loopback: true}, "[::1]:80", true},
		"mapped loopback":        {Egress{Loopback: true}, "[::ffff:127.0.0.1]:80", true},
		"not private by that":    {Egress{Loopback: true}, "10.0.0.1:80", false},
		"private by list":        {Egress{Allow: allow("10.0.0.0/8")}, "10.1.2.3:80", true},
		"mapped private by list": {Egress{Allow: allow("10.0.0.0/8")}, "[::ffff:10.1.2.3]:80", true},
		"v6 by list":             {Egress{Allow: allow("fd00::/8")}, "[fd12::1]:80", true},
		"other private":          {Egress{Allow: allow("10.0.0.0/8")}, "192.168.0.1:80", false},
		"metadata never":         {Egress{Loopback: true, Allow: allow("0.0.0.0/0", "::/0")}, "169.254.169.254:80", false},
		"metadata v6 never":      {Egress{Allow: allow("::/0")}, "[fd00:ec2::254]:80", false},
		"metadata by NAT64":      {Egress{Allow: allow("::/0")}, "[64:ff9b::a9fe:a9fe]:80", false},
		"metadata by 6to4":       {Egress{Allow: allow("::/0")}, "[2002:a9fe:a9fe::]:80", false},
		"not an address":         {Egress{Allow: allow("::/0")}, "name:80", false},
		"zone":                   {Egress{}, "[fe80::1%eth0]:80", false},
	} {
		if err := test.e.control()("tcp", test.address, nil); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
