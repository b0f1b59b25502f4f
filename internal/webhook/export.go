package webhook

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/period"
	"steward/internal/web"
)

const (
	// exportBytes bounds the bodies that an export has in memory, unless a single one is larger.
	exportBytes = 256 << 10
	// checkEvery is how often an export checks its caller's rights again.
	checkEvery = 15 * time.Second
)

// ExportRequest selects the receipts to export.
type ExportRequest struct {
	Path
	period.Between
	ReceiptFilter
}

// Export handles GET /webhook/receipt-export/{webhookId}. Between two statements it holds nothing in the
// database, however slowly the client reads.
func (h *Handler) Export(ctx context.Context, in *ExportRequest) (web.Lines, error) {
	f, err := in.ReceiptFilter.within(in.Between, page.Paging{})
	if err != nil {
		return web.Lines{}, err
	}
	caller := auth.From(ctx)
	if _, err := h.Store.Get(ctx, caller.OrgID, in.ID); err != nil {
		return web.Lines{}, err
	}
	if !h.exports.begin(caller.OrgID) {
		return web.Lines{}, &errs.Error{
			Kind: errs.RateLimited, Message: "too many exports are running; try again when one has ended", RetryAfter: time.Second,
		}
	}
	e := &export{handler: h, hook: hookKey{caller.OrgID, in.ID}, filter: f, masks: MasksCredentials(caller), checked: h.Store.Now()}
	return web.Lines{Serve: func(w http.ResponseWriter, r *http.Request) {
		defer h.exports.end(caller.OrgID)
		if r.Method == http.MethodHead {
			return
		}
		if err := e.write(w, r); err != nil {
			if r.Context().Err() == nil {
				web.Log(r.Context()).Warn("an export ended early", "webhook", in.ID, "error", err)
			}
			panic(http.ErrAbortHandler) // otherwise the client would take the last line for the end
		}
	}}, nil
}

// export writes receipts as lines of JSON.
type export struct {
	handler *Handler
	hook    hookKey
	filter  ReceiptFilter
	masks   bool // credentials show as ***
	checked time.Time
}

func (e *export) write(to http.ResponseWriter, r *http.Request) error {
	w, err := newWalk(e.hook, e.filter, "")
	if err != nil {
		return err
	}
	out := http.NewResponseController(to)
	to.WriteHeader(http.StatusOK)
	if err := out.Flush(); err != nil { // the first match may be far
		return err
	}
	for !w.done {
		found, err := e.handler.Store.next(r.Context(), w)
		if err != nil {
			return err
		}
		for len(found) > 0 {
			n, size := 1, found[0].size
			for n < len(found) && size+found[n].size <= exportBytes {
				size += found[n].size
				n++
			}
			if err := e.writeSome(to, r, found[:n]); err != nil {
				return err
			}
			found = found[n:]
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if the caller may no longer see the receipts, or must now see them in another form.
func (e *export) check(r *http.Request) error {
	if now := e.handler.Store.Now(); now.Sub(e.checked) >= checkEvery {
		caller, err := e.handler.Authorize(r)
		if err != nil {
			return err
		}
		if MasksCredentials(caller) != e.masks {
			return errs.New(errs.Forbidden, "the role has changed")
		}
		e.checked = now
	}
	_, err := e.handler.Store.Get(r.Context(), e.hook.orgID, e.hook.webhookID)
	return err
}

// writeSome writes a few receipts. A slow client may have taken long since the last ones.
func (e *export) writeSome(to http.ResponseWriter, r *http.Request, some []walked) error {
	if err := e.check(r); err != nil {
		return err
	}
	store := e.handler.Store
	receipts, err := store.listed(store.DB.Read(r.Context()), e.hook.webhookID, some, `, body`)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	for _, receipt := range receipts {
		if e.masks {
			if receipt, err = receipt.Masked(); err != nil {
				return err
			}
		}
		line, err := receipt.AppendJSON(buf.AvailableBuffer())
		if err != nil {
			return err
		}
		buf.Write(append(line, '\n'))
		if buf.Len() >= exportBytes {
			if _, err := buf.WriteTo(to); err != nil {
				return err
			}
		}
	}
	_, err = buf.WriteTo(to)
	return err
}
