package e2e

import (
	"strings"
	"testing"

	"steward/e2e/installation"
)

var long = strings.Repeat("é", 1025)

// invalid are requests that are refused, with the locations of their errors. W, D and R stand for an
// existing webhook, delivery and receipt.
var invalid = []struct {
	method, path, body string
	status             int
	locations          string
}{
	{"POST", "create", `{}`, 422, "body.name"},
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
	{"POST", "create", `{"name": "a\u0000b"}`, 422, "body.name"},
	{"POST", "create", `{"name": "x", "retention_seconds": 3600.5}`, 422, "body.retention_seconds"},
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
		"POST", "destination-create/W",
		`{"type": "fax", "config": {"url": "ftp://a", "headers": {"Host": "a", "a b": "c", "ok": "v"}}}`, 422,
		"body.type body.config.url body.config.headers.Host body.config.headers.a b",
	},
	{"POST", "destination-create/W", `{"type": "url", "config": {"url": "http://a:65536"}}`, 422, "body.config.url"},
	{"POST", "destination-create/W", `{"type": "url", "config": {"URL": "http://a"}}`, 422, "body.config.url"},
	{
		"POST", "destination-create/W",
		`{"type": "url", "config": {"url": "http://a", "timeout_seconds": 1.5, "max_retries": 1e30,
			"concurrency": "1", "disabled": 1}}`, 422,
		"body.config.concurrency body.config.disabled body.config.max_retries body.config.timeout_seconds",
	},
	{"PUT", "destination-update/W/whds_x", `{}`, 404, ""},
	{"GET", "receipt-list/W?since=2026-13-30T00:00:00Z&until=x", "", 422, "query.since query.until"},
	{"GET", "receipt-list/W?since=2026-02-30T00:00:00Z&until=2026-02-30", "", 422, "query.since query.until"},
	{"GET", "receipt-get/W/D", "", 404, ""},
	{"GET", "receipt-payload/W/R%FF", "", 400, ""},
	{"GET", "delivery-list/W?status=lost", "", 422, "query.status"},
	{"POST", "delivery-retry/W/R", `{}`, 404, ""},
	{"GET", "analytics/org?granularity=week&start=now", "", 422, "query.start query.granularity"},
	{"GET", "analytics/org?start=2026-11-15T00:00:00Z&end=2026-11-14T00:00:00Z", "", 422, "query.start"},
	{"GET", "analytics/org/timeseries?start=0001-01-01T00:00:00Z", "", 422, "query.start"},
	{
		"GET", "analytics/org/timeseries?start=2026-01-01T00:00:00Z&end=2026-11-14T00:00:00Z&granularity=minute", "", 422,
		"query.granularity",
	},
}

// unusual are requests that are accepted.
var unusual = []string{
	"list?offset=9223372036854775807",
	"list?limit=0",
	"list?limit=&cursor=",
	"receipt-list/W?offset=9223372036854775807&limit=1000",
	"delivery-list/W?since=0001-01-01T00:00:00Z&until=9999-12-31T23:59:59.999999999Z",
	"delivery-list/W?destinationId=x&receiptId=%20",
	"delivery-list/W?since=2026-11-16T00:00:00Z&until=2026-11-15T00:00:00Z",
	"analytics/org?end=9999-12-31T23:59:59Z",
}

// TestInvalidWebhookRequestsListAllErrors also checks that errors of the JSON decoder do not leak.
func TestInvalidWebhookRequestsListAllErrors(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	h := s.NewHook("orders")
	s.NewDestination(h, "http://127.0.0.1:9/", "concurrency", 5.0)
	receiptID := s.Ingest(h, "x")
	known := strings.NewReplacer("/W", "/"+h.ID, "/D", "/"+s.ListDeliveries(h, "")[0].ID, "/R", "/"+receiptID)
	for _, m := range invalid {
		r := s.Call(m.method, "/webhook/"+known.Replace(m.path), m.body)
		var problem struct {
			Detail string
			Errors []struct{ Location, Message string }
		}
		r.Decode(&problem)
		var locations []string
		for _, e := range problem.Errors {
			locations = append(locations, e.Location)
		}
		if r.Status != m.status || strings.Join(locations, " ") != m.locations || problem.Detail == "" ||
			strings.Contains(string(r.Body), "json:") {
			t.Errorf("%s %s %.120s: %d %s", m.method, m.path, m.body, r.Status, r.Body)
		}
	}
	for _, path := range unusual {
		s.Call("GET", "/webhook/"+known.Replace(path), nil).Want(200)
	}
	// Fields of a config match exactly; unknown ones are kept.
	made := s.Call("POST", "/webhook/destination-create/"+h.ID, object{"type": "http", "config": object{
		"url": "http://127.0.0.1:9/", "URL": "ftp://kept", "max_retries": 2,
	}}).Want(201)
	if made.Get("config.URL") != "ftp://kept" || made.Text("type") != "http" {
		t.Errorf("created %s", made.Body)
	}
}
