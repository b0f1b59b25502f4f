package webhook

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/page"
)

// maxRecoverRate is the highest rate you can ask for, in attempts per second.
const maxRecoverRate = 1000

// RecoverRequest is the body of a request to recover a destination.
type RecoverRequest struct {
	_ struct{} `goName:"WebhookRecoverRequest"`

	Rate page.Opt[int64] `json:"rate,omitempty" required:"false" minimum:"1" maximum:"1000" doc:"Attempts per second; by default all are due now"`
}

// Check implements web.Checked.
func (r RecoverRequest) Check(faults *errs.Faults) {
	if rate := r.Rate.Ptr(); rate != nil {
		faults.Check(*rate >= 1 && *rate <= maxRecoverRate, "body.rate", "expected 1 to %d", maxRecoverRate)
	}
}

// Recovered is the response to a RecoverRequest.
type Recovered struct {
	_ struct{} `goName:"WebhookRecovered"`

	Recovered int64 `json:"recovered" doc:"Number of waiting attempts that are made due; counted up to 1,000,000" example:"1257"`
}

// RecoverDestination handles POST /webhook/destination-recover/{webhookId}/{destinationId}.
func (h *Handler) RecoverDestination(ctx context.Context, in *struct {
	DestinationPath
	Body *RecoverRequest
},
) (Recovered, error) {
	var rate int64
	if in.Body != nil {
		var faults errs.Faults
		in.Body.Check(&faults)
		if err := faults.Err(); err != nil {
			return Recovered{}, err
		}
		in.Body.Rate.Set(&rate)
	}
	to := in.of(auth.From(ctx).OrgID)
	waiting, err := h.Store.countWaiting(ctx, to)
	if err != nil {
		return Recovered{}, err
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Recovered, error) {
		n, done, err := h.Store.Recover(ctx, to, rate)
		if !done {
			n = max(n, waiting)
		}
		return Recovered{Recovered: n}, err
	})
}

// countWaiting counts the destination's waiting attempts that are not due yet. It returns NotFound if
// there is no such destination.
func (s *Store) countWaiting(ctx context.Context, to DestinationRef) (n int64, err error) {
	q := s.DB.Read(ctx)
	if _, err := findDestination(q, to); err != nil {
		return 0, err
	}
	return s.Queue.CountWaiting(q, to.ID)
}

// findDestination reports whether a webhook's destination is disabled. It returns NotFound if there is
// none.
func findDestination(q db.Querier, to DestinationRef) (disabled bool, err error) {
	if _, err := get(q, to.OrgID, to.WebhookID); err != nil {
		return false, err
	}
	err = q.Row(`SELECT disabled FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
		to.OrgID, to.WebhookID, to.ID).Scan(&disabled)
	if errors.Is(err, db.ErrNoRows) {
		return false, errs.Missing("destination", to.ID)
	}
	if err != nil {
		return false, fmt.Errorf("read destination: %w", err)
	}
	return disabled, nil
}

// Recover makes a destination's waiting attempts due, as queue.Store.Recover does. It returns
// NotFound, or Conflict if the destination is disabled.
func (s *Store) Recover(ctx context.Context, to DestinationRef, rate int64) (n int64, done bool, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		disabled, err := findDestination(tx, to)
		if err != nil {
			return err
		}
		if disabled {
			return errs.New(errs.Conflict, "the destination is disabled")
		}
		if n, done, err = s.Queue.Recover(tx, to.ID, rate); err != nil {
			return err
		}
		return s.Audit.Record(tx, "webhook.destination-recover", to.ID)
	})
	return n, done, err
}
