// Package clients uses real installations through the clients of others: the platform's SDKs and its CLI,
// relying parties, tools for object storage, and clients of key-value stores and databases in several
// languages.
//
// The scripts are in e2e/sdk, e2e/oidc and e2e/clients, with the packages that `make deps` installs.
package clients

import (
	"os"
	"testing"

	"steward/e2e/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

type object = map[string]any
