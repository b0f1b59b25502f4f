package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"
)

// expiresSoon is how long before its end a certificate should have been replaced.
const expiresSoon = 14 * 24 * time.Hour

// certificates checks the TLS certificates: those that the running server serves, or the files.
func (d *doctor) certificates(ctx context.Context) Finding {
	switch {
	case !d.cfg.TLS():
		return fine("none; the listeners are plain")
	case d.running != nil:
		return d.servedCertificates(ctx)
	case d.cfg.TLSCert == "":
		return fine("the server obtains those of %s", strings.Join(d.cfg.ACMEDomains, ", "))
	}
	pair, err := tls.LoadX509KeyPair(d.cfg.TLSCert, d.cfg.TLSKey)
	if err != nil {
		return fail("correct --tls-cert and --tls-key", "%v", err)
	}
	return d.certificateFiles(pair.Leaf)
}

// certificateFiles checks a certificate in a file, and who can read its key.
func (d *doctor) certificateFiles(leaf *x509.Certificate) Finding {
	if f := lifetime(leaf); f.Status != OK {
		return f
	}
	info, err := os.Stat(d.cfg.TLSKey)
	if err != nil {
		return fail("correct --tls-key", "%v", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return warn("run chmod o= "+d.cfg.TLSKey, "every user of the machine can read %s (mode %o)", d.cfg.TLSKey, info.Mode().Perm())
	}
	return lifetime(leaf)
}

// servedCertificates connects to the API as clients do, once for each domain.
func (d *doctor) servedCertificates(ctx context.Context) Finding {
	names := d.cfg.ACMEDomains
	if d.cfg.TLSCert != "" {
		names = []string{""} // a client that sends no name gets the certificate
	}
	var found []string
	for _, name := range names {
		leaf, err := d.served(ctx, name)
		if err != nil {
			return fail("see the log of the server", "no certificate for %s: %v", name, err)
		}
		f := lifetime(leaf)
		if d.cfg.TLSCert != "" {
			f = d.certificateFiles(leaf)
		}
		if f.Status != OK {
			return f
		}
		found = append(found, f.Detail)
	}
	return fine("%s", strings.Join(found, "; "))
}

// served returns the certificate that the running server serves for a name. It is looked at, and nothing
// is sent, so that it need not be trusted.
func (d *doctor) served(ctx context.Context, name string) (*x509.Certificate, error) {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}}
	c, err := dialer.DialContext(ctx, "tcp", d.listening("api"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// lifetime says when a certificate ends.
func lifetime(leaf *x509.Certificate) Finding {
	names := leaf.DNSNames
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	detail := fmt.Sprintf("that of %s ends on %s", strings.Join(names, ", "), leaf.NotAfter.UTC().Format(time.DateOnly))
	left := time.Until(leaf.NotAfter)
	// Some certificates live for days only, and are replaced in time.
	soon := min(expiresSoon, leaf.NotAfter.Sub(leaf.NotBefore)/4)
	switch {
	case left <= 0:
		return fail("replace it", "%s", detail)
	case left < soon:
		return warn("replace it, or see the log of the server why it was not renewed", "%s", detail)
	}
	return fine("%s", detail)
}
