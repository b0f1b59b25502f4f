package config

import (
	"strings"

	"steward/internal/id"
	"steward/internal/oidc/upstream"
)

// upstreamDomains parses the organizations that domains are granted to, by domain. A domain without
// an organization is granted to the first one, which has the id "" here.
func upstreamDomains(v string) (map[string]string, error) {
	granted := map[string]string{}
	for entry := range strings.SplitSeq(v, ",") {
		orgID, domain, named := strings.Cut(strings.TrimSpace(entry), "=")
		if !named {
			domain = orgID
			orgID = ""
		}
		_, twice := granted[domain]
		if twice || named && !id.Is(id.Org, orgID) || !upstream.ValidDomain(domain) {
			return nil, mustBe("domains of e-mail addresses, each once, with the id of an organization or for the first one, " +
				"such as example.com,org_01jcq3r0b3d6g9j2m5p8s1v4xz=example.org")
		}
		granted[domain] = orgID
	}
	return granted, nil
}
