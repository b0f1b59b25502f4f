package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// TLS reports whether the listeners for API, S3 and key-value stores serve TLS.
func (c Config) TLS() bool { return c.TLSCert != "" || len(c.ACMEDomains) > 0 }

// Scheme returns the URL scheme for a listener: the secure one with TLS.
func (c Config) Scheme(plain, secure string) string {
	if c.TLS() {
		return secure
	}
	return plain
}

// maxACMEDomains caps the certificates that a process obtains.
const maxACMEDomains = 100

// acmeDomains parses the names to obtain certificates for. It refuses wildcards, since they need a
// challenge in the DNS.
func acmeDomains(v string) ([]string, error) {
	wrong := mustBe("up to 100 domain names separated by commas, such as steward.example.com,s3.example.com, without wildcards")
	var all []string
	for item := range strings.SplitSeq(v, ",") {
		name, err := domain(strings.TrimSpace(item))
		if err != nil || slices.Contains(all, name) {
			return nil, wrong
		}
		all = append(all, name)
	}
	if len(all) > maxACMEDomains {
		return nil, wrong
	}
	return all, nil
}

// acmeCA parses the URL of an ACME server's directory. It may be plain HTTP only on this machine.
func acmeCA(v string) (string, error) {
	wrong := mustBe("the https:// URL of the directory of an ACME server")
	u, err := url.Parse(v)
	if err != nil || u.User != nil || !isHost(u.Hostname()) || !validPort(u) || strings.ContainsAny(v, "?#") {
		return "", wrong
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme != "https" && (u.Scheme != "http" || err != nil || !ip.IsLoopback()) {
		return "", wrong
	}
	return v, nil
}

// checkTLS checks TLS settings that depend on others, and sets the base URL that follows from them.
func (l *loader) checkTLS(c *Config) {
	on := l.given("acme") || l.given("tls-cert")
	for _, name := range []string{"client-ca", "redirect-listen"} {
		l.faults.Check(on || !l.given(name), l.sources[name], "requires --tls-cert or --acme")
	}
	for _, url := range []struct{ name, value, secure string }{
		{"base-url", c.BaseURL, "https://"}, {"s3-url", c.S3URL, "https://"}, {"kv-url", c.KVURL, "rediss://"},
	} {
		l.faults.Check(!on || url.value == "" || strings.HasPrefix(url.value, url.secure), l.sources[url.name],
			"must begin with %s with --tls-cert or --acme", url.secure)
	}
	if c.BaseURL == "" && len(c.ACMEDomains) > 0 {
		c.BaseURL = "https://" + c.ACMEDomains[0]
	}
}
