package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/web"
	"steward/internal/webhook/send"
	"steward/internal/webhook/verify"
)

// Requests that cannot be verified are no receipts: they are in a table of their own, for a day, and
// nothing counts or delivers them.

const (
	// maxRejected bounds a webhook's rejected requests, and maxRejectedBytes each of them.
	maxRejected      = 1000
	maxRejectedBytes = 16 << 10
	keepRejected     = 24 * time.Hour

	rejectedTable = "webhook_rejected"
)

// Rejected is a request that could not be verified.
type Rejected struct {
	_ struct{} `goName:"WebhookRejected"`

	ID          string            `json:"id" example:"whrj_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	Date        stamp.Time        `json:"date" format:"date-time"`
	WebhookID   string            `json:"webhook_id" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
	Reason      verify.Reason     `json:"reason" enum:"missing_signature,wrong_signature,bad_timestamp,missing_credentials,wrong_credentials,wrong_challenge_token" doc:"Why it was rejected; bad_timestamp is one that is missing or too far from the server's time"`
	Headers     map[string]string `json:"headers" doc:"Lower-case names. Viewers see *** for credentials" example:"{\"content-type\":\"application/json\"}"`
	Payload     json.RawMessage   `json:"payload" doc:"The value of a JSON body, else its text, else base64" example:"{\"order\":1042}"`
	Encoding    string            `json:"payload_encoding,omitempty" enum:"base64" doc:"base64 if the body is not text"`
	Truncated   bool              `json:"truncated,omitempty" doc:"True if the request has more than 16 KiB, of which only the first are kept"`
	Method      string            `json:"method" example:"POST"`
	Query       string            `json:"query" example:"source=shop"`
	RemoteAddr  string            `json:"remote_addr" example:"203.0.113.7"`
	Size        int64             `json:"size" doc:"Bytes of the body" example:"31"`
	ContentType string            `json:"content_type" example:"application/json"`
}

// rejection is a rejected request to store.
type rejection struct {
	orgID, webhookID string
	row              rejectedRow
}

// rejectedRow is a row in webhook_rejected.
type rejectedRow struct {
	Key                                            string
	Date                                           stamp.Time
	Reason, Method, Query, RemoteAddr, ContentType string
	Size                                           int64
	Headers                                        string
	Body                                           []byte
	Truncated                                      bool
}

// Bytes estimates how much the request adds to a transaction.
func (r *rejection) Bytes() int { return 512 + len(r.row.Headers) + len(r.row.Body) }

// Org returns the webhook's organization, for db.Gather.
func (r *rejection) Org() string { return r.orgID }

// newRejection returns a rejected request, cut to maxRejectedBytes.
func (s *Store) newRejection(r *http.Request, orgID string, reason verify.Reason, body []byte) *rejection {
	webhookID := r.PathValue("id")
	row := rejectedRow{
		Reason: string(reason), Method: cut(send.CleanText(r.Method), 32), Query: send.CleanText(r.URL.RawQuery),
		RemoteAddr: web.Request(r.Context()).RemoteAddr, Size: int64(len(body)),
	}
	if reason == verify.WrongToken {
		row.Query = "" // viewers see it, and it may be almost right
	}
	left := maxRejectedBytes
	fields := send.Fields(r)
	for i, f := range fields {
		if left -= len(f.Name) + len(f.Value) + len(`"":"",`); left < maxRejectedBytes/2 { // half is for the rest
			fields = fields[:i]
			row.Truncated = true
			break
		}
	}
	left = max(left, maxRejectedBytes/2)
	row.ContentType = cut(send.Value(fields, "content-type"), 256)
	if query := cut(row.Query, 2<<10); query != row.Query {
		row.Query = query
		row.Truncated = true
	}
	if left -= len(row.Query); len(body) > left {
		size := int64(len(body))
		body = body[:left]
		if text := textOfHead(body, size); text != "" { // without a part of a character
			body = []byte(text)
		}
		row.Truncated = true
	}
	row.Body = append([]byte{}, body...) // nil would become NULL
	row.Headers = s.sealHeaders(webhookID, send.MarshalFields(fields))
	return &rejection{orgID: orgID, webhookID: webhookID, row: row}
}

// cut returns the first bytes of a text, without a part of a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return textOfHead([]byte(text[:limit]), int64(len(text)))
}

// Reject stores a rejected request, together with others that arrive at the same time.
func (s *Store) Reject(ctx context.Context, r *rejection) error {
	return s.rejections.Do(ctx, s.DB, r, s.rejectBatch)
}

// rejectBatch stores rejected requests, and removes a webhook's oldest ones if it has too many.
func (s *Store) rejectBatch(tx *db.Tx, batch []*rejection) error {
	now := s.Now()
	rows := make(db.Bulk[rejectedRow], len(batch))
	webhooks := map[string]bool{}
	for i, r := range batch {
		rows[i] = r.row
		rows[i].Key = rowKey(r.webhookID, id.At(id.Rejected, now))
		rows[i].Date = stamp.Of(now)
		webhooks[r.webhookID] = true
	}
	if err := rows.Send(tx, `INSERT INTO webhook_rejected
		(key, date, reason, method, query, remote_addr, content_type, size, headers, truncated, body)
		SELECT v.key, v.date, v.reason, v.method, v.query, v.remote_addr, v.content_type, v.size, v.headers, v.truncated, v.body FROM {v}`); err != nil {
		return fmt.Errorf("insert rejected requests: %w", err)
	}
	for webhookID := range webhooks {
		keys := keysOf(webhookID, nil, nil)
		last, err := db.Collect(tx, db.Value[string], `SELECT key FROM webhook_rejected WHERE key >= $1 AND key < $2
			ORDER BY key DESC LIMIT 1 OFFSET `+fmt.Sprint(maxRejected-1), keys.from, keys.to)
		if err != nil {
			return fmt.Errorf("count rejected requests: %w", err)
		}
		if len(last) == 0 {
			continue
		}
		if _, err := deleteRows(tx, rejectedTable, "", keyRange{keys.from, last[0]}); err != nil {
			return err
		}
	}
	return nil
}

// Rejected returns a page of a webhook's rejected requests, newest first, or NotFound.
func (s *Store) Rejected(ctx context.Context, orgID, webhookID string, p page.Paging) (page.Page[Rejected], error) {
	q := s.DB.Read(ctx)
	if _, err := get(q, orgID, webhookID); err != nil {
		return page.Page[Rejected]{}, err
	}
	since := stamp.Of(s.Now()).Add(-keepRejected)
	keys := keysOf(webhookID, &since, nil)
	l := list.Query[Rejected]{
		Name: "rejected requests", From: list.Text(rejectedTable), Where: list.Where(`key >= ?`, keys.from),
		Columns: `'` + id.Rejected + `_' || substr(key, 27), date, reason, method, query, remote_addr, content_type, size, headers, truncated, body`,
		Scan:    s.rejectedScanner(webhookID),
	}
	l.Order = list.ByKey([]string{`key`}, id.Rejected, func(r Rejected) string { return r.ID },
		func(rejectedID string) []any { return []any{rowKey(webhookID, rejectedID)} })
	l.Order.Begin = []any{keys.to}
	total, err := l.Count(q)
	if err != nil {
		return page.Page[Rejected]{}, err
	}
	return l.Page(q, p, total)
}

// rejectedScanner returns a function that reads the rows of one page, within the page's budget.
func (s *Store) rejectedScanner(webhookID string) func(db.Row) (Rejected, error) {
	var budget page.Budget
	return func(row db.Row) (Rejected, error) {
		r := Rejected{WebhookID: webhookID}
		of := Receipt{WebhookID: webhookID}
		if err := row.Scan(&r.ID, &r.Date, &r.Reason, &r.Method, &r.Query, &r.RemoteAddr, &r.ContentType, &r.Size, &of.headerText,
			&r.Truncated, &of.body); err != nil {
			return r, err
		}
		of.ID = r.ID
		s.openListed(&of)
		if err := json.Unmarshal([]byte(of.headerText), &r.Headers); err != nil {
			return r, fmt.Errorf("decode headers of rejected request: %w", err)
		}
		if of.Size = int64(len(of.body)); budget.Take(len(of.body)) {
			of = of.withPayload()
		} else {
			of = of.withoutPayload()
			r.Truncated = true
		}
		r.Payload = of.Payload
		r.Encoding = of.Encoding
		return r, nil
	}
}

// RejectedRequest asks for a list of rejected requests.
type RejectedRequest struct {
	Path
	page.Paging
}

// Rejected handles GET /webhook/rejected-list/{webhookId}. It masks credentials in headers for some
// callers.
func (h *Handler) Rejected(ctx context.Context, in *RejectedRequest) (page.Page[Rejected], error) {
	caller := auth.From(ctx)
	found, err := h.Store.Rejected(ctx, caller.OrgID, in.ID, in.Paging)
	if err != nil || !MasksCredentials(caller) {
		return found, err
	}
	for _, r := range found.Items {
		for name := range r.Headers {
			if verify.IsHidden(name) {
				r.Headers[name] = mask
			}
		}
	}
	return found, nil
}
