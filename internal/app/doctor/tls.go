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

// expiresSoon is the time before its end by which a certificate should have been replaced.
const expiresSoon = 14 * 24 * time.Hour

// certificates checks the TLS certificates: those that the running server serves, or the files.
func (d *doctor) certificates(ctx context.Context) Finding {
	switch {
	case !d.cfg.TLS():
		return fine("none; the listeners are plain")
	case d.cfg.TLSCert != "":
		return d.certificateFiles(ctx)
	case d.running != nil:
		return d.servedCertificates(ctx)
	}
	return fine("the server obtains those of %s", strings.Join(d.cfg.ACMEDomains, ", "))
}

// certificateFiles checks the files, who can read the key, and that the running server serves the
// same certificate.
func (d *doctor) certificateFiles(ctx context.Context) Finding {
	pair, err := tls.LoadX509KeyPair(d.cfg.TLSCert, d.cfg.TLSKey)
	if err != nil {
		advice := "correct --tls-cert and --tls-key"
		if d.running != nil {
			advice += "; until then the running server serves the last certificate, and does not start again"
		}
		return fail(advice, "%v", err)
	}
	if f := lifetime(pair.Leaf); f.Status == Failed {
		return f
	}
	info, err := os.Stat(d.cfg.TLSKey)
	if err != nil {
		return fail("correct --tls-key", "%v", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return warn("run chmod o= "+d.cfg.TLSKey, "every user of the machine can read %s (mode %o)", d.cfg.TLSKey, info.Mode().Perm())
	}
	if d.running == nil {
		return lifetime(pair.Leaf)
	}
	leaf, err := d.served(ctx, "") // a client that sends no name gets the certificate
	if err != nil {
		return fail("see the log of the server", "no certificate is served: %v", err)
	}
	if !leaf.Equal(pair.Leaf) {
		return warn("run this again in 10 seconds, and then see the log of the server", "the running server serves another certificate than %s has: %s",
			d.cfg.TLSCert, lifetime(leaf).Detail)
	}
	return lifetime(leaf)
}

// servedCertificates connects to the API as clients do, once for each domain.
func (d *doctor) servedCertificates(ctx context.Context) Finding {
	var found []string
	for _, name := range d.cfg.ACMEDomains {
		leaf, err := d.served(ctx, name)
		if err != nil {
			return fail("see the log of the server", "no certificate for %s: %v", name, err)
		}
		f := lifetime(leaf)
		if f.Status != OK {
			return f
		}
		found = append(found, f.Detail)
	}
	return fine("%s", strings.Join(found, "; "))
}

// served returns the certificate that the running server serves for a name. We only look at it and
// send nothing, so we need not trust it.
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
	// Some certificates live only for days, and are replaced in time.
	soon := min(expiresSoon, leaf.NotAfter.Sub(leaf.NotBefore)/4)
	switch {
	case left <= 0:
		return fail("replace it", "%s", detail)
	case left < soon:
		return warn("replace it, or see the log of the server why it was not renewed", "%s", detail)
	}
	return fine("%s", detail)
}
