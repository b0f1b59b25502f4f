package certificate

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/mholt/acmez/v3/acme"
)

// failureName names the stored reason why we last failed to obtain a certificate. It is stored so that
// every replica can report it.
func failureName(domain string) string { return "failures/" + domain }

// noteFailure stores why a certificate was not obtained, or clears the reason if err is nil.
func (a *ACME) noteFailure(ctx context.Context, domain string, err error) {
	var failed error
	if err == nil {
		failed = a.options.Store.Delete(ctx, failureName(domain))
	} else {
		failed = a.options.Store.Store(ctx, failureName(domain), []byte(explain(err)))
	}
	if failed != nil {
		a.options.Log.Warn("the status of a TLS certificate was not stored", "domain", domain, "error", failed)
	}
}

// problemPrefix begins the problems that RFC 8555 defines.
const problemPrefix = "urn:ietf:params:acme:error:"

// maxProblem caps how long a CA's problem may be if we are to show it, in bytes.
const maxProblem = 100

// explain says why a certificate was not obtained, without addresses.
func explain(err error) string {
	var problem acme.Problem
	if errors.As(err, &problem) && len(problem.Type) <= maxProblem {
		return "the CA refused it with " + strings.TrimPrefix(problem.Type, problemPrefix) + "; the log of the server says why"
	}
	return "it was not obtained; the log of the server says why"
}

// States returns the state of each domain's certificate. Every replica reports a failure, whichever one
// tried.
func (a *ACME) States(ctx context.Context) ([]State, error) {
	all := make([]State, len(a.options.Domains))
	for i, e := range a.Expiries() {
		why, err := a.options.Store.Load(ctx, failureName(e.Domain))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all[i] = State{Domains: []string{e.Domain}, Source: FromACME, NotAfter: e.NotAfter, LastError: string(why)}
	}
	return all, nil
}
