package providertest

import (
	"steward/internal/auth"
	"steward/internal/oidc/upstream"
)

// NewUpstream adds a provider to the fixture's organization.
func (f *Fixture) NewUpstream(n upstream.NewUpstream) upstream.Upstream {
	f.T.Helper()
	u, err := f.Provider.Upstreams.Store.Create(f.Ctx, auth.From(f.Ctx), n)
	Must(f.T, err)
	return u
}
