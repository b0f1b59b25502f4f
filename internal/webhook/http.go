package webhook

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/web"
)

// Handler has one method for each route of this package.
type Handler struct {
	Store *Store
	// BaseURL is where ingest URLs begin.
	BaseURL string
}

func (h *Handler) url(webhookID, token string) string {
	return h.BaseURL + "/in/" + webhookID + "/" + token
}

// Create answers POST /webhook/create.
func (h *Handler) Create(ctx context.Context, in *struct{ Body NewWebhook }) (Webhook, error) {
	w, err := in.Body.build(h.Store.Now())
	if err != nil {
		return Webhook{}, err
	}
	caller := auth.From(ctx)
	token, err := h.Store.Create(ctx, caller, w)
	w.CreatedBy, w.URL, w.Metadata = caller.UserID, h.url(w.ID, token), rawOf(nil)
	return w, err
}

// Get answers GET /webhook/get/{webhookId}.
func (h *Handler) Get(ctx context.Context, in *struct {
	ID string `path:"webhookId"`
},
) (Webhook, error) {
	return h.Store.Get(ctx, auth.From(ctx).OrgID, in.ID)
}

// List answers GET /webhook/list.
func (h *Handler) List(ctx context.Context, in *struct{ page.Paging }) (page.Page[Webhook], error) {
	return h.Store.List(ctx, auth.From(ctx).OrgID, in.Paging)
}

// Update answers PUT /webhook/update/{webhookId}.
func (h *Handler) Update(ctx context.Context, in *struct {
	ID string `path:"webhookId"`
	page.IfMatch
	Body Patch
},
) (Webhook, error) {
	return h.Store.Update(ctx, auth.From(ctx).OrgID, in.ID, in.Body, in.IfMatch)
}

// Rotate answers POST /webhook/rotate-url/{webhookId}.
func (h *Handler) Rotate(ctx context.Context, in *struct {
	ID string `path:"webhookId"`
	page.IfMatch
},
) (Webhook, error) {
	w, token, err := h.Store.Rotate(ctx, auth.From(ctx).OrgID, in.ID, in.IfMatch)
	w.URL = h.url(in.ID, token)
	return w, err
}

// Delete answers DELETE /webhook/delete/{webhookId}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	ID string `path:"webhookId"`
	page.IfMatch
},
) (web.None, error) {
	return web.None{}, h.Store.Delete(ctx, auth.From(ctx).OrgID, in.ID, in.IfMatch)
}

// CreateDestination answers POST /webhook/destination-create/{webhookId}.
func (h *Handler) CreateDestination(ctx context.Context, in *struct {
	ID   string `path:"webhookId"`
	Body NewDestination
},
) (Destination, error) {
	d, err := in.Body.build(h.Store.Now())
	if err != nil {
		return Destination{}, err
	}
	d.Metadata = rawOf(nil)
	return h.Store.CreateDestination(ctx, auth.From(ctx), in.ID, d)
}

// Destinations answers GET /webhook/destination-list/{webhookId}.
func (h *Handler) Destinations(ctx context.Context, in *struct {
	ID string `path:"webhookId"`
},
) ([]Destination, error) {
	return h.Store.Destinations(ctx, auth.From(ctx).OrgID, in.ID)
}

// UpdateDestination answers PUT /webhook/destination-update/{webhookId}/{destinationId}.
func (h *Handler) UpdateDestination(ctx context.Context, in *struct {
	ID            string `path:"webhookId"`
	DestinationID string `path:"destinationId"`
	page.IfMatch
	Body struct {
		Config page.Opt[Config] `json:"config,omitempty" required:"false" doc:"Replaces all settings; without it nothing is changed"`
	}
},
) (Destination, error) {
	c := in.Body.Config.Ptr()
	if c != nil {
		if err := c.check(); err != nil {
			return Destination{}, err
		}
	}
	return h.Store.UpdateDestination(ctx, auth.From(ctx).OrgID, in.ID, in.DestinationID, c, in.IfMatch)
}

// DeleteDestination answers DELETE /webhook/destination-delete/{webhookId}/{destinationId}.
func (h *Handler) DeleteDestination(ctx context.Context, in *struct {
	ID            string `path:"webhookId"`
	DestinationID string `path:"destinationId"`
	page.IfMatch
},
) (web.None, error) {
	return web.None{}, h.Store.DeleteDestination(ctx, auth.From(ctx).OrgID, in.ID, in.DestinationID, in.IfMatch)
}

// Between are the filters by time.
type Between struct {
	Since string `query:"since" format:"date-time" doc:"Only from this time on"`
	Until string `query:"until" format:"date-time" doc:"Only before this time"`
}

func (b Between) into(f *Filter) error {
	var faults errs.Faults
	f.Since, f.Until = moment(&faults, "query.since", b.Since), moment(&faults, "query.until", b.Until)
	return faults.Err()
}

// Receipts answers GET /webhook/receipt-list/{webhookId}.
func (h *Handler) Receipts(ctx context.Context, in *struct {
	ID string `path:"webhookId"`
	page.Paging
	Between
},
) (Receipts, error) {
	var f Filter
	if err := in.into(&f); err != nil {
		return Receipts{}, err
	}
	result, err := h.Store.Receipts(ctx, auth.From(ctx).OrgID, in.ID, f, in.Paging)
	return Receipts{result}, err
}

// Receipt answers GET /webhook/receipt-get/{webhookId}/{receiptId}.
func (h *Handler) Receipt(ctx context.Context, in *struct {
	ID        string `path:"webhookId"`
	ReceiptID string `path:"receiptId"`
},
) (Receipt, error) {
	r, err := h.Store.Receipt(ctx, auth.From(ctx).OrgID, in.ID, in.ReceiptID)
	return r.show(), err
}

// Payload answers GET /webhook/receipt-payload/{webhookId}/{receiptId} with the bytes that came in. They are an untrusted party's, so their
// own Content-Type is not repeated: a browser must not run them in the console's name.
func (h *Handler) Payload(ctx context.Context, in *struct {
	ID        string `path:"webhookId"`
	ReceiptID string `path:"receiptId"`
},
) (web.Raw, error) {
	r, err := h.Store.Receipt(ctx, auth.From(ctx).OrgID, in.ID, in.ReceiptID)
	return web.Raw{ContentType: "application/octet-stream", Bytes: r.body}, err
}

// Deliveries answers GET /webhook/delivery-list/{webhookId}.
func (h *Handler) Deliveries(ctx context.Context, in *struct {
	ID string `path:"webhookId"`
	page.Paging
	Between
	Status        Status `query:"status" enum:"pending,success,failed" doc:"Only those with this status"`
	DestinationID string `query:"destinationId" doc:"Only those to this destination"`
	ReceiptID     string `query:"receiptId" doc:"Only those of this receipt"`
},
) (page.Page[Delivery], error) {
	f := Filter{Status: in.Status, DestinationID: in.DestinationID, ReceiptID: in.ReceiptID}
	if err := in.into(&f); err != nil {
		return page.Page[Delivery]{}, err
	}
	return h.Store.Deliveries(ctx, auth.From(ctx).OrgID, in.ID, f, in.Paging)
}

// Retry answers POST /webhook/delivery-retry/{webhookId}/{deliveryId}.
func (h *Handler) Retry(ctx context.Context, in *struct {
	ID         string `path:"webhookId"`
	DeliveryID string `path:"deliveryId"`
},
) (Delivery, error) {
	return h.Store.Retry(ctx, auth.From(ctx).OrgID, in.ID, in.DeliveryID)
}

// Asked is the query of both analytics routes.
type Asked struct {
	Start       string      `query:"start" format:"date-time" doc:"Default: 24 hours before the end"`
	End         string      `query:"end" format:"date-time" doc:"Default: now"`
	Granularity Granularity `query:"granularity" enum:"minute,hour,day" default:"hour"`
}

// Analytics answers GET /webhook/analytics/org.
func (h *Handler) Analytics(ctx context.Context, in *struct{ Asked }) (Analytics, error) {
	s, err := h.span(in.Asked)
	if err != nil {
		return Analytics{}, err
	}
	sum, err := h.Store.Sum(ctx, auth.From(ctx).OrgID, s.unit, s.from, s.to)
	return Analytics{Period: s.period(), Summary: sum}, err
}

// Timeseries answers GET /webhook/analytics/org/timeseries.
func (h *Handler) Timeseries(ctx context.Context, in *struct{ Asked }) (Timeseries, error) {
	s, err := h.span(in.Asked)
	if err != nil {
		return Timeseries{}, err
	}
	counts, err := h.Store.Counts(ctx, auth.From(ctx).OrgID, s.unit, s.from, s.to)
	return Timeseries{Period: s.period(), Series: s.series(counts)}, err
}

func (h *Handler) span(in Asked) (span, error) {
	var faults errs.Faults
	start, end := moment(&faults, "query.start", in.Start), moment(&faults, "query.end", in.End)
	if err := faults.Err(); err != nil {
		return span{}, err
	}
	return spanOf(start, end, in.Granularity, h.Store.Now())
}

// moment reads a time of a query that may be left out.
func moment(faults *errs.Faults, location, text string) *stamp.Time {
	if text == "" {
		return nil
	}
	var at stamp.Time
	err := at.UnmarshalText([]byte(text))
	faults.Check(err == nil, location, "expected an RFC 3339 time such as 2026-11-15T08:30:00Z")
	return &at
}
