package console

import (
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

func TestConsoleManagesAlerts(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	k := sink.New(t)
	c := signedIn(t, s)
	c.at("/alerts", "No alerts yet")
	c.Press("New alert")
	c.Fill("name", hostile)
	c.Fill("kind", "delivery_pass_rate")
	c.Fill("percent", "101")
	c.Fill("type", "webhook")
	c.Fill("url", k.URL+"/alerts/secret")
	c.Press("Create")
	c.See("expected")
	c.Fill("percent", "90")
	c.Press("Create")
	c.See("The alert was created.")
	c.See("less than 90 %, at least 20, 60 minutes")
	c.misses("secret")
	c.inert("alerts")
	c.Press("Send test of " + hostile)
	c.See("The test was sent.")
	if body := string(k.Wait("/alerts/secret", 1)[0].Body); !strings.Contains(body, `"alert.test"`) {
		t.Errorf("the test is %s", body)
	}
	c.Press("Edit " + hostile)
	c.See("Leave it to keep it")
	c.Fill("name", "Deliveries")
	c.Press("Save")
	c.See("The alert was changed.")
	c.Press("Send test of Deliveries") // the URL is still there
	k.Wait("/alerts/secret", 2)
	refuse(k, "/alerts/secret")
	c.Press("Send test of Deliveries")
	c.See("was not sent: the destination answered 503")
	c.Press("Delete Deliveries")
	c.See("Nobody is told")
	c.Press("Delete")
	c.See("No alerts yet")
	c.Clean()
}
