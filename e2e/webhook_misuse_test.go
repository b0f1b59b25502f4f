package e2e

import (
	"strings"
	"testing"
)

var long = strings.Repeat("é", 1025)

// misuse is a request that must be refused, and where its faults are. W, D and R stand for a webhook, a delivery and a receipt that exist.
var misuse = []struct {
	method, path, body string
	status             int
	faults             string // their locations
}{
	{"POST", "create", `{}`, 422, "body"},
	{"POST", "create", `[]`, 422, "body"},
	{
		"POST", "create", `{"name": 5, "internal": "x", "description": 3, "retention_seconds": "a"}`, 422,
		"body.description body.internal body.name body.retention_seconds",
	},
	{
		"POST", "create", `{"name": "` + long + `", "description": "` + long + `", "retention_seconds": 1}`, 422,
		"body.description body.name body.retention_seconds",
	},
	{"POST", "create", `{"name": " "}`, 422, "body.name"},
	{"POST", "create", `{"name": "a\u0000b"}`, 422, "body"},
	{"POST", "create", `{"name": "x", "retention_seconds": 3600.0}`, 422, "body"},
	{"POST", "create", `{"name": "x"`, 400, ""},
	{"PUT", "update/W", `{"name": null}`, 422, "body.name"},
	{"PUT", "update/W", `{"retention_seconds": 400000000}`, 422, "body.retention_seconds"},
	{"GET", "get/%00", "", 400, ""},
	{"GET", "get/W%20", "", 404, ""},
	{"GET", "list?limit=1001&offset=-1", "", 422, "query.limit query.offset"},
	{"GET", "list?limit=99999999999999999999", "", 422, "query.limit"},
	{"GET", "list?cursor=x", "", 422, "query.cursor"},
	{"GET", "delivery-list/W?cursor=WyJ3aHJjX3giXQ", "", 422, "query.cursor"}, // of a list of receipts
	{"POST", "destination-create/W", `{"type": "url", "config": null}`, 422, "body.config"},
	{
		"POST", "destination-create/W", `{"type": "fax", "config": {"url": "ftp://a", "headers": {"Host": "a", "a b": "c", "ok": "v"}}}`, 422,
		"body.type body.config.url body.config.headers.Host body.config.headers.a b",
	},
	{"POST", "destination-create/W", `{"type": "url", "config": {"url": "http://a:65536"}}`, 422, "body.config.url"},
	{"POST", "destination-create/W", `{"type": "url", "config": {"URL": "http://a"}}`, 422, "body.config.url"},
	{
		"POST", "destination-create/W",
		`{"type": "url", "config": {"url": "http://a", "timeout_seconds": 1.5, "max_retries": 1e30, "concurrency": "1", "disabled": 1}}`, 422,
		"body.config.concurrency body.config.disabled body.config.max_retries body.config.timeout_seconds",
	},
	{"PUT", "destination-update/W/whds_x", `{}`, 404, ""},
	{"GET", "receipt-list/W?since=2026-02-30T00:00:00Z&until=x", "", 422, "query.since query.until"},
	{"GET", "receipt-get/W/D", "", 404, ""},
	{"GET", "receipt-payload/W/R%FF", "", 422, ""},
	{"GET", "delivery-list/W?status=lost", "", 422, "query.status"},
	{"POST", "delivery-retry/W/R", `{}`, 404, ""},
	{"GET", "analytics/org?granularity=week&start=now", "", 422, "query.start query.granularity"},
	{"GET", "analytics/org?start=2026-11-15T00:00:00Z&end=2026-11-14T00:00:00Z", "", 422, "query.start"},
	{"GET", "analytics/org/timeseries?start=0001-01-01T00:00:00Z", "", 422, "query.start"},
	{"GET", "analytics/org/timeseries?start=2026-01-01T00:00:00Z&end=2026-11-14T00:00:00Z&granularity=minute", "", 422, "query.granularity"},
}

// odd are requests that look wrong and are not.
var odd = []string{
	"list?offset=9223372036854775807", "list?limit=0", "list?limit=&cursor=", "receipt-list/W?offset=9223372036854775807&limit=1000",
	"delivery-list/W?since=0001-01-01T00:00:00Z&until=9999-12-31T23:59:59.999999999Z", "delivery-list/W?destinationId=x&receiptId=%20",
	"delivery-list/W?since=2026-11-16T00:00:00Z&until=2026-11-15T00:00:00Z", "analytics/org?end=9999-12-31T23:59:59Z",
}

// TestWebhookMisuse: what is wrong is refused by name, all of it at once, in words that are the API's own and never tell the value.
func TestWebhookMisuse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		s.destination(h, "http://127.0.0.1:9/", "concurrency", 5.0)
		r := s.ingest(h, "x")
		known := strings.NewReplacer("/W", "/"+h.ID, "/D", "/"+s.deliveries(h, "")[0].ID, "/R", "/"+r)
		for _, m := range misuse {
			a := s.call(m.method, "/webhook/"+known.Replace(m.path), m.body)
			var problem struct {
				Detail string
				Errors []struct{ Location, Message string }
			}
			a.into(&problem)
			var faults []string
			for _, f := range problem.Errors {
				faults = append(faults, f.Location)
			}
			if a.status != m.status || strings.Join(faults, " ") != m.faults || problem.Detail == "" || strings.Contains(string(a.body), "json:") {
				t.Errorf("%s %s %.120s: %d %s", m.method, m.path, m.body, a.status, a.body)
			}
		}
		for _, path := range odd {
			s.call("GET", "/webhook/"+known.Replace(path), nil).want(200)
		}
		// Keys of a destination's settings are its own in small letters only; others are kept.
		made := s.call("POST", "/webhook/destination-create/"+h.ID, map[string]any{"type": "http", "config": map[string]any{
			"url": "http://127.0.0.1:9/", "URL": "ftp://kept", "max_retries": 2,
		}}).want(201)
		if made.get("config.URL") != "ftp://kept" || made.text("type") != "http" {
			t.Errorf("made %s", made.body)
		}
	})
}
