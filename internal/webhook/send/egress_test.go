package send

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

const notAllowed = "the address is not allowed: "

// TestSpecialAddressesAreRefused sends to addresses that only Egress keeps from being reached.
func TestSpecialAddressesAreRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	client := New(Egress{}, now)
	for _, host := range []string{
		"127.0.0.1", "127.8.9.10", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "10.0.0.1", "172.16.0.1", "192.168.1.1",
		"169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "[fe80::1]", "[fc00::1]", "100.64.0.1", "100.100.100.200",
		"168.63.129.16", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "224.0.0.1",
		"255.255.255.255", "198.18.0.1", "192.0.2.1",
	} {
		result := client.Send(t.Context(), newPost(fmt.Sprintf("http://%s:%d/", host, port)))
		if !strings.HasPrefix(result.Error, notAllowed) {
			t.Errorf("%s: %q", host, result.Error)
		}
	}
	for _, host := range []string{"localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1"} {
		r := newPost(fmt.Sprintf("http://%s:%d/", host, port))
		r.Timeout = 2 * time.Second // some are looked up as names
		if result := client.Send(t.Context(), r); result.Error == "" || result.Response != nil {
			t.Errorf("%s was reached", host)
		}
	}
	if n := pending(t, listener); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// pending counts the connections that wait to be accepted, with one of its own that is the last.
func pending(t *testing.T, listener net.Listener) (n int) {
	last, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	defer last.Close()
	for {
		c, err := listener.Accept()
		must(t, err)
		c.Close()
		if c.RemoteAddr().String() == last.LocalAddr().String() {
			return n
		}
		n++
	}
}

func prefixes(cidrs ...string) (list []netip.Prefix) {
	for _, c := range cidrs {
		list = append(list, netip.MustParsePrefix(c))
	}
	return list
}

func own(addresses ...string) (list []netip.AddrPort) {
	for _, a := range addresses {
		list = append(list, netip.MustParseAddrPort(a))
	}
	return list
}

func TestEgress(t *testing.T) {
	open := prefixes("0.0.0.0/0", "::/0")
	for name, c := range map[string]struct {
		egress  Egress
		address string
		ok      bool
	}{
		"public":                       {Egress{}, "93.184.216.34:80", true},
		"public v6":                    {Egress{}, "[2606:2800:220:1::1]:443", true},
		"loopback when allowed":        {Egress{Loopback: true}, "127.0.0.1:80", true},
		"loopback v6":                  {Egress{Loopback: true}, "[::1]:80", true},
		"mapped loopback":              {Egress{Loopback: true}, "[::ffff:127.0.0.1]:80", true},
		"private despite loopback":     {Egress{Loopback: true}, "10.0.0.1:80", false},
		"private by list":              {Egress{Allow: prefixes("10.0.0.0/8")}, "10.1.2.3:80", true},
		"mapped private by list":       {Egress{Allow: prefixes("10.0.0.0/8")}, "[::ffff:10.1.2.3]:80", true},
		"v6 by list":                   {Egress{Allow: prefixes("fd00::/8")}, "[fd12::1]:80", true},
		"other private":                {Egress{Allow: prefixes("10.0.0.0/8")}, "192.168.0.1:80", false},
		"metadata":                     {Egress{Loopback: true, Allow: open}, "169.254.169.254:80", false},
		"metadata v6":                  {Egress{Allow: open}, "[fd00:ec2::254]:80", false},
		"metadata by NAT64":            {Egress{Allow: open}, "[64:ff9b::a9fe:a9fe]:80", false},
		"metadata by 6to4":             {Egress{Allow: open}, "[2002:a9fe:a9fe::]:80", false},
		"name":                         {Egress{Allow: open}, "name:80", false},
		"zone":                         {Egress{}, "[fe80::1%eth0]:80", false},
		"own":                          {Egress{Loopback: true, Own: own("127.0.0.1:80")}, "127.0.0.1:80", false},
		"own, mapped":                  {Egress{Loopback: true, Own: own("127.0.0.1:80")}, "[::ffff:127.0.0.1]:80", false},
		"own, by unspecified address":  {Egress{Allow: open, Own: own("127.0.0.1:80")}, "0.0.0.0:80", false},
		"own, by unspecified v6":       {Egress{Allow: open, Own: own("[::1]:80")}, "[::]:80", false},
		"own v6":                       {Egress{Loopback: true, Own: own("[::1]:80")}, "[::1]:80", false},
		"own private":                  {Egress{Allow: open, Own: own("10.0.0.1:80")}, "10.0.0.1:80", false},
		"own public":                   {Egress{Own: own("93.184.216.34:80")}, "93.184.216.34:80", false},
		"own public by NAT64":          {Egress{Allow: open, Own: own("93.184.216.34:80")}, "[64:ff9b::5db8:d822]:80", false},
		"own, second of two":           {Egress{Loopback: true, Own: own("127.0.0.1:80", "127.0.0.1:81")}, "127.0.0.1:81", false},
		"other port":                   {Egress{Loopback: true, Own: own("127.0.0.1:80")}, "127.0.0.1:81", true},
		"other address":                {Egress{Loopback: true, Own: own("127.0.0.1:80")}, "127.0.0.2:80", true},
		"listening everywhere":         {Egress{Loopback: true, Own: own("0.0.0.0:80")}, "127.0.0.1:80", false},
		"listening everywhere, 127/8":  {Egress{Loopback: true, Own: own("[::]:80")}, "127.8.9.10:80", false},
		"listening everywhere, v6":     {Egress{Loopback: true, Own: own("[::]:80")}, "[::1]:80", false},
		"listening everywhere, port":   {Egress{Loopback: true, Own: own("[::]:80")}, "[::1]:81", true},
		"listening everywhere, remote": {Egress{Own: own("[::]:80")}, "93.184.216.34:80", true},
	} {
		if err := c.egress.control()("tcp", c.address, nil); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOwnListenersAreRefused sends to a listener on every address by which this machine can be
// reached.
func TestOwnListenersAreRefused(t *testing.T) {
	listener, err := net.Listen("tcp", ":0")
	must(t, err)
	reached := false
	steward := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) { reached = true })}}
	steward.Start()
	defer steward.Close()
	port := listener.Addr().(*net.TCPAddr).AddrPort().Port()
	hosts := []string{"127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::]"}
	addresses, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range addresses {
		if ip := netip.MustParsePrefix(a.String()).Addr(); ip.Is4() {
			hosts = append(hosts, ip.String())
		} else if !ip.IsLinkLocalUnicast() {
			hosts = append(hosts, "["+ip.String()+"]")
		}
	}
	client := New(Egress{
		Loopback: true, Allow: prefixes("0.0.0.0/0", "::/0"),
		Own: []netip.AddrPort{netip.AddrPortFrom(netip.IPv6Unspecified(), port)},
	}, now)
	for _, host := range hosts {
		result := client.Send(t.Context(), newPost(fmt.Sprintf("http://%s:%d/metrics", host, port)))
		if !strings.HasPrefix(result.Error, notAllowed) {
			t.Errorf("%s: %+v", host, result)
		}
	}
	if reached {
		t.Error("Steward was reached")
	}
}
