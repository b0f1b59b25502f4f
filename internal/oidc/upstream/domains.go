package upstream

import (
	"context"

	"steward/internal/account"
	"steward/internal/errs"
)

// Domains records the organization that the operator granted each domain to.
type Domains struct {
	// Granted maps domains to organization ids. "" stands for the first organization.
	Granted  map[string]string
	Accounts *account.Store
}

// Org returns the organization that a domain was granted to, or "".
func (d Domains) Org(ctx context.Context, domain string) (string, error) {
	orgID, ok := d.Granted[domain]
	if !ok || orgID != "" {
		return orgID, nil
	}
	first, _, err := d.Accounts.FirstOrg(ctx)
	return first, err
}

// Has reports whether a domain was granted to an organization.
func (d Domains) Has(ctx context.Context, orgID, domain string) (bool, error) {
	owner, err := d.Org(ctx, domain)
	return err == nil && owner == orgID && orgID != "", err
}

// check returns Invalid if an upstream has a domain that was not granted to its organization.
func (d Domains) check(ctx context.Context, u Upstream) error {
	for _, domain := range u.Domains {
		granted, err := d.Has(ctx, u.OrgID, domain)
		if err != nil {
			return err
		}
		if !granted {
			return errs.InvalidField("body.domains",
				"expected domains that the operator of the server has granted to the organization with --upstream-domains")
		}
	}
	return nil
}
