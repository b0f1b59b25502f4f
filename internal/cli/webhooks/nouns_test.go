package webhooks

import (
	"testing"

	"steward/internal/cli/noun/nountest"
)

// TestCommandsUseTheAPI checks the routes, flags and arguments of the tables against the API.
func TestCommandsUseTheAPI(t *testing.T) {
	nountest.Check(t, "../../../client/openapi.json", webhookNoun(), destinationNoun(), receiptNoun(), deliveryNoun(), replayNoun(), alertNoun())
}
