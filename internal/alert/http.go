package alert

import (
	"context"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/page"
	"steward/internal/web"
	"steward/internal/webhook/send"
)

// Handler serves the package's routes, with one method for each.
type Handler struct {
	Store *Store
	// SendTest sends a request for an organization at once, or returns RateLimited.
	SendTest func(ctx context.Context, orgID string, r send.Request) (send.Result, error)
}

// Path names an alert.
type Path struct {
	ID string `path:"id" doc:"Id of the alert" example:"alr_01jcq3w7y2b5d8f1h4k7n0q3st"`
}

// shown returns the alert as responses show it.
func (a Alert) shown() Alert {
	a.Target = a.Target.masked()
	return a
}

// List serves GET /alert.
func (h *Handler) List(ctx context.Context, _ *struct{}) ([]Alert, error) {
	list, err := h.Store.List(ctx, auth.From(ctx).OrgID)
	for i := range list {
		list[i] = list[i].shown()
	}
	return list, err
}

// Create serves POST /alert.
func (h *Handler) Create(ctx context.Context, in *struct{ Body NewAlert }) (Alert, error) {
	var faults errs.Faults
	in.Body.Check(&faults)
	if err := faults.Err(); err != nil {
		return Alert{}, err
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Alert, error) {
		a, err := h.Store.Create(ctx, auth.From(ctx), in.Body)
		return a.shown(), err
	})
}

// Update serves PUT /alert/{id}.
func (h *Handler) Update(ctx context.Context, in *struct {
	Path
	page.IfMatch
	Body Patch
},
) (Alert, error) {
	a, err := h.Store.Update(ctx, Change{auth.From(ctx).OrgID, in.ID, in.IfMatch}, in.Body)
	return a.shown(), err
}

// Delete serves DELETE /alert/{id}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	Path
	page.IfMatch
},
) (web.None, error) {
	return web.None{}, h.Store.Delete(ctx, Change{auth.From(ctx).OrgID, in.ID, in.IfMatch})
}

// TestResult is the outcome of a test.
type TestResult struct {
	_ struct{} `goName:"AlertTest"`

	Status int     `json:"status,omitempty" doc:"Status of the target's response; absent if there was none, and for mail" example:"200"`
	Error  *string `json:"error" doc:"Why a notice would not be sent; null if it was, or a mail is in the queue" example:"null"`
}

// Test serves POST /alert/{id}/test. It sends a notice that says that it is a test. You can test a
// disabled alert.
func (h *Handler) Test(ctx context.Context, in *Path) (TestResult, error) {
	orgID := auth.From(ctx).OrgID
	a, err := h.Store.Get(ctx, orgID, in.ID)
	if err != nil {
		return TestResult{}, err
	}
	if err := idempotency.Claim(ctx); err != nil {
		return TestResult{}, err
	}
	m := newMessage(EventTest, a, a, h.Store.Now())
	var problem string
	if a.Target.Type == Mail {
		err := h.Store.DB.Write(ctx, func(tx *db.Tx) error {
			if problem, err = h.Store.mail(tx, m, a.Target); err != nil {
				return err
			}
			return h.Store.Audit.Record(tx, "alert.test", a.ID)
		})
		return testResult(0, problem), err
	}
	request, err := m.request(a.Target)
	if err != nil {
		return TestResult{}, err
	}
	result, err := h.SendTest(ctx, orgID, request)
	if err != nil {
		return TestResult{}, err
	}
	status := 0
	if result.Response != nil {
		status = result.Response.Status
	}
	if err := h.Store.DB.Write(ctx, func(tx *db.Tx) error { return h.Store.Audit.Record(tx, "alert.test", a.ID) }); err != nil {
		return TestResult{}, err
	}
	return testResult(status, send.CleanText(result.Error)), nil
}

func testResult(status int, problem string) TestResult {
	return TestResult{Status: status, Error: db.Null(problem)}
}
