package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/idempotency"
	"steward/internal/stamp"
	"steward/internal/webhook/send"
)

const (
	// maxRunning bounds the tests that run at a time in this process, and maxOrgRunning those of one
	// organization: a destination may take a minute to respond. The same bounds hold for exports.
	maxRunning    = 16
	maxOrgRunning = 4
)

// TestResponse is the outcome of testing a destination. The response's fields are absent if there was
// none.
type TestResponse struct {
	_ struct{} `goName:"DestinationTest"`

	Status     int               `json:"status,omitempty" doc:"Status of the response; absent if there was none" example:"200"`
	Headers    map[string]string `json:"headers,omitempty" example:"{\"content-type\":\"application/json\",\"user-agent\":\"shop/2.1\"}"`
	Body       string            `json:"body,omitempty" doc:"The first 16 KiB" example:"ok"`
	DurationMS int64             `json:"duration_ms" example:"84"`
	Error      *string           `json:"error" doc:"Why a delivery would fail; null if it would succeed" example:"null"`
}

// testEvent is a test's body.
type testEvent struct {
	Type      string     `json:"type"`
	Timestamp stamp.Time `json:"timestamp"`
	Data      testData   `json:"data"`
}

type testData struct {
	WebhookID     string `json:"webhook_id"`
	DestinationID string `json:"destination_id"`
}

// testRequest returns a signed event for a destination. No receipt or delivery has its ids.
func testRequest(d Destination, now time.Time) (send.Request, error) {
	body, err := json.Marshal(testEvent{
		Type: "webhook.test", Timestamp: stamp.Of(now), Data: testData{WebhookID: d.WebhookID, DestinationID: d.ID},
	})
	if err != nil {
		return send.Request{}, fmt.Errorf("encode test event: %w", err)
	}
	return send.Request{
		Method: http.MethodPost, URL: d.Config.URL, Headers: d.Config.Headers, Body: body,
		Received:  send.FieldsOf(map[string]string{"content-type": "application/json"}),
		ReceiptID: id.At(id.Receipt, now), DeliveryID: id.At(id.Delivery, now),
		Signer: d.signer(), Timeout: time.Duration(d.Config.TimeoutSeconds) * time.Second,
	}, nil
}

// testResponse returns a result as the API shows it. Unlike a delivery, a test never disables the
// destination.
func testResponse(r send.Result, took time.Duration) TestResponse {
	shown := TestResponse{DurationMS: took.Milliseconds()}
	if r.Response != nil {
		shown.Status = r.Response.Status
		shown.Headers = r.Response.Headers
		shown.Body = r.Response.Body
		shown.DurationMS = r.Response.DurationMS
	}
	switch {
	case r.Gone:
		shown.Error = new("the destination answered 410, which disables it when a delivery gets it")
	case r.Error != "":
		shown.Error = new(send.CleanText(r.Error))
	}
	return shown
}

// TestDestination handles POST /webhook/destination-test/{webhookId}/{destinationId}. You can test a
// disabled destination, to make sure it works before you enable it.
func (h *Handler) TestDestination(ctx context.Context, in *DestinationPath) (TestResponse, error) {
	orgID := auth.From(ctx).OrgID
	d, err := h.Store.destinationOf(h.Store.DB.Read(ctx), in.of(orgID))
	if err != nil {
		return TestResponse{}, err
	}
	request, err := testRequest(d, h.Store.Now())
	if err != nil {
		return TestResponse{}, err
	}
	if err := idempotency.Claim(ctx); err != nil {
		return TestResponse{}, err
	}
	began := time.Now()
	result, err := h.SendTest(ctx, orgID, request)
	if err != nil {
		return TestResponse{}, err
	}
	return testResponse(result, time.Since(began)), nil
}

// SendTest sends a request for an organization at once. It returns RateLimited if too many tests are
// running.
func (h *Handler) SendTest(ctx context.Context, orgID string, r send.Request) (send.Result, error) {
	if !h.tests.begin(orgID) {
		return send.Result{}, &errs.Error{
			Kind: errs.RateLimited, Message: "too many tests are running; try again when one has ended", RetryAfter: time.Second,
		}
	}
	defer h.tests.end(orgID)
	return h.Network.Send(ctx, r), nil
}

// running counts the tests or exports that are running. The zero value is ready to use.
type running struct {
	mu    sync.Mutex
	total int
	byOrg map[string]int
}

// begin counts another one, or reports false if none may run now.
func (r *running) begin(orgID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.total >= maxRunning || r.byOrg[orgID] >= maxOrgRunning {
		return false
	}
	if r.byOrg == nil {
		r.byOrg = map[string]int{}
	}
	r.total++
	r.byOrg[orgID]++
	return true
}

func (r *running) end(orgID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total--
	r.byOrg[orgID]--
	if r.byOrg[orgID] == 0 {
		delete(r.byOrg, orgID)
	}
}
