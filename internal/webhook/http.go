package webhook

import (
	"context"
	"net/http"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/page"
	"steward/internal/period"
	"steward/internal/web"
	"steward/internal/webhook/send"
	"steward/internal/webhook/stats"
)

// Handler has one method for each route of this package.
type Handler struct {
	Store *Store
	Stats *stats.Store
	// BaseURL is the start of ingest URLs.
	BaseURL string
	// Network sends tests, just as it sends deliveries.
	Network send.Sender
	// Authorize returns the caller behind a request under way, or an error if they may no longer read
	// webhooks.
	Authorize func(r *http.Request) (*auth.Caller, error)

	tests, exports running
}

// Path has the parameter in a webhook's paths.
type Path struct {
	ID string `path:"webhookId" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
}

// DestinationPath has the parameters in a destination's paths.
type DestinationPath struct {
	Path
	DestinationID string `path:"destinationId" example:"whds_01jcq44h7k0n3q6t9w2z5c8f1j"`
}

func (p DestinationPath) of(orgID string) DestinationRef {
	return DestinationRef{OrgID: orgID, WebhookID: p.ID, ID: p.DestinationID}
}

// ReceiptPath has the parameters in a receipt's paths.
type ReceiptPath struct {
	Path
	ReceiptID string `path:"receiptId" example:"whrc_01jcq45k1n4q7t0w3z6c9f2h5k"`
}

func (h *Handler) url(webhookID, token string) string {
	return h.BaseURL + "/in/" + webhookID + "/" + token
}

// Create handles POST /webhook/create.
func (h *Handler) Create(ctx context.Context, in *struct{ Body NewWebhook }) (Webhook, error) {
	caller := auth.From(ctx)
	if in.Body.Internal && !caller.Manages() {
		return Webhook{}, errs.New(errs.Forbidden, "the role owner or admin is required to create internal webhooks")
	}
	w, err := in.Body.build(h.Store.Now())
	if err != nil {
		return Webhook{}, err
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Webhook, error) {
		token, err := h.Store.Create(ctx, caller, w)
		created := w
		created.CreatedBy = caller.Actor()
		created.URL = h.url(w.ID, token)
		created.Metadata = rawOf(nil)
		return created, err
	})
}

// Get handles GET /webhook/get/{webhookId}.
func (h *Handler) Get(ctx context.Context, in *Path) (Webhook, error) {
	return h.Store.Get(ctx, auth.From(ctx).OrgID, in.ID)
}

// ListRequest asks for a list of webhooks.
type ListRequest struct {
	page.Paging
	Internal page.Opt[bool] `query:"internal" nullable:"false" doc:"Only webhooks that the system manages, or with false only the others; by default all"`
}

// List handles GET /webhook/list.
func (h *Handler) List(ctx context.Context, in *ListRequest) (page.Page[Webhook], error) {
	return h.Store.List(ctx, auth.From(ctx).OrgID, in.Internal.Ptr(), in.Paging)
}

// Update handles PUT /webhook/update/{webhookId}.
func (h *Handler) Update(ctx context.Context, in *struct {
	Path
	page.IfMatch
	Body Patch
},
) (Webhook, error) {
	caller := auth.From(ctx)
	if in.Body.Verification.Sent {
		if err := caller.RequireRecent(); err != nil {
			return Webhook{}, err
		}
	}
	return h.Store.Update(ctx, caller.OrgID, in.ID, in.Body, in.IfMatch)
}

// IngestURL is the response of GET /webhook/url/{webhookId}.
type IngestURL struct {
	_ struct{} `goName:"WebhookURL"`

	URL string `json:"url" doc:"Send requests to it; whoever knows it can" example:"https://steward.example.com/in/wh_01jcq43f5h8k1n4q7t0w3z6c9f/4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8"`
}

// URL handles GET /webhook/url/{webhookId}.
func (h *Handler) URL(ctx context.Context, in *Path) (IngestURL, error) {
	token, err := h.Store.Token(ctx, auth.From(ctx).OrgID, in.ID)
	if err != nil {
		return IngestURL{}, err
	}
	return IngestURL{URL: h.url(in.ID, token)}, nil
}

// Rotate handles POST /webhook/rotate-url/{webhookId}.
func (h *Handler) Rotate(ctx context.Context, in *struct {
	Path
	page.IfMatch
},
) (Webhook, error) {
	return idempotency.Once(ctx, func(ctx context.Context) (Webhook, error) {
		w, token, err := h.Store.Rotate(ctx, auth.From(ctx).OrgID, in.ID, in.IfMatch)
		w.URL = h.url(in.ID, token)
		return w, err
	})
}

// Delete handles DELETE /webhook/delete/{webhookId}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	Path
	page.IfMatch
},
) (web.None, error) {
	return web.None{}, h.Store.Delete(ctx, auth.From(ctx).OrgID, in.ID, in.IfMatch)
}

// CreateDestination handles POST /webhook/destination-create/{webhookId}.
func (h *Handler) CreateDestination(ctx context.Context, in *struct {
	Path
	Body NewDestination
},
) (Destination, error) {
	d, err := in.Body.build(h.Store.Now())
	if err != nil {
		return Destination{}, err
	}
	d.Metadata = rawOf(nil)
	return idempotency.Once(ctx, func(ctx context.Context) (Destination, error) {
		return h.Store.CreateDestination(ctx, auth.From(ctx), in.ID, d)
	})
}

// Destinations handles GET /webhook/destination-list/{webhookId}. It masks header values for some
// callers because they are often credentials.
func (h *Handler) Destinations(ctx context.Context, in *Path) (Destinations, error) {
	caller := auth.From(ctx)
	all, err := h.Store.Destinations(ctx, caller.OrgID, in.ID)
	if err != nil || !MasksCredentials(caller) {
		return all, err
	}
	for i := range all {
		if all[i].Config, err = all[i].Config.masked(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// UpdateDestination handles PUT /webhook/destination-update/{webhookId}/{destinationId}.
func (h *Handler) UpdateDestination(ctx context.Context, in *struct {
	DestinationPath
	page.IfMatch
	Body DestinationPatch
},
) (Destination, error) {
	c := in.Body.Config.Ptr()
	if c != nil {
		if err := c.check(); err != nil {
			return Destination{}, err
		}
	}
	return h.Store.UpdateDestination(ctx, in.of(auth.From(ctx).OrgID), c, in.IfMatch)
}

// DeleteDestination handles DELETE /webhook/destination-delete/{webhookId}/{destinationId}.
func (h *Handler) DeleteDestination(ctx context.Context, in *struct {
	DestinationPath
	page.IfMatch
},
) (web.None, error) {
	return web.None{}, h.Store.DeleteDestination(ctx, in.of(auth.From(ctx).OrgID), in.IfMatch)
}

// ReceiptsRequest asks for a list of receipts.
type ReceiptsRequest struct {
	Path
	page.Paging
	period.Between
	ReceiptFilter
}

// Receipts handles GET /webhook/receipt-list/{webhookId}. It masks credentials in headers for some
// callers.
func (h *Handler) Receipts(ctx context.Context, in *ReceiptsRequest) (Receipts, error) {
	f, err := in.ReceiptFilter.within(in.Between, in.Paging)
	if err != nil {
		return Receipts{}, err
	}
	caller := auth.From(ctx)
	result, err := h.Store.Receipts(ctx, caller.OrgID, in.ID, f, in.Paging)
	if err != nil || !MasksCredentials(caller) {
		return result, err
	}
	for i := range result.Items {
		if result.Items[i], err = result.Items[i].Masked(); err != nil {
			return Receipts{}, err
		}
	}
	return result, nil
}

// Neighbors handles GET /webhook/receipt-neighbors/{webhookId}/{receiptId}.
func (h *Handler) Neighbors(ctx context.Context, in *ReceiptPath) (ReceiptNeighbors, error) {
	return h.Store.neighbors(ctx, hookKey{auth.From(ctx).OrgID, in.ID}, in.ReceiptID)
}

// Receipt handles GET /webhook/receipt-get/{webhookId}/{receiptId}. It masks credentials in headers
// for some callers.
func (h *Handler) Receipt(ctx context.Context, in *ReceiptPath) (Receipt, error) {
	caller := auth.From(ctx)
	r, err := h.Store.Receipt(ctx, caller.OrgID, in.ID, in.ReceiptID)
	if err == nil && MasksCredentials(caller) {
		r, err = r.Masked()
	}
	return r.withPayload(), err
}

// Payload handles GET /webhook/receipt-payload/{webhookId}/{receiptId}. It returns the body as we
// received it, but without its Content-Type: a browser must not run it with this API's origin.
func (h *Handler) Payload(ctx context.Context, in *ReceiptPath) (web.Raw, error) {
	r, err := h.Store.Receipt(ctx, auth.From(ctx).OrgID, in.ID, in.ReceiptID)
	return web.Raw{ContentType: "application/octet-stream", Bytes: r.body}, err
}

// DeliveriesRequest asks for a list of deliveries.
type DeliveriesRequest struct {
	Path
	page.Paging
	period.Between
	Filter
}

// Deliveries handles GET /webhook/delivery-list/{webhookId}.
func (h *Handler) Deliveries(ctx context.Context, in *DeliveriesRequest) (page.Page[Delivery], error) {
	f := in.Filter
	var faults errs.Faults
	f.Since, f.Until = in.Times(&faults)
	if err := faults.Err(); err != nil {
		return page.Page[Delivery]{}, err
	}
	return h.Store.Deliveries(ctx, auth.From(ctx).OrgID, in.ID, f, in.Paging)
}

// RetryRequest is the empty body of a request to retry a delivery.
type RetryRequest struct{}

// Retry handles POST /webhook/delivery-retry/{webhookId}/{deliveryId}.
func (h *Handler) Retry(ctx context.Context, in *struct {
	Path
	DeliveryID string `path:"deliveryId" example:"whdv_01jcq46m3p6s9v2y5b8e1h4k7n"`
	Body       *RetryRequest
},
) (Delivery, error) {
	return idempotency.Once(ctx, func(ctx context.Context) (Delivery, error) {
		return h.Store.Retry(ctx, auth.From(ctx).OrgID, in.ID, in.DeliveryID)
	})
}

// Analytics handles GET /webhook/analytics/org.
func (h *Handler) Analytics(ctx context.Context, in *struct{ stats.Query }) (stats.Analytics, error) {
	return h.Stats.Analytics(ctx, auth.From(ctx).OrgID, in.Query)
}

// Timeseries handles GET /webhook/analytics/org/timeseries.
func (h *Handler) Timeseries(ctx context.Context, in *struct{ stats.Query }) (stats.Timeseries, error) {
	return h.Stats.Timeseries(ctx, auth.From(ctx).OrgID, in.Query)
}
