package mail

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store has this package's SQL.
type Store struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
}

// purpose ties sealed requests to this package.
const purpose = "mail"

// Add adds a request to the queue.
func (s *Store) Add(tx *db.Tx, r Request) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode mail: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO mails (id, kind, body, attempts, next_at, last_error, created_at)
		VALUES ($1, $2, $3, 0, $4, '', $4)`,
		id.At("mail", s.Now()), string(r.Kind), s.Ring.Seal(purpose, body), stamp.Of(s.Now())); err != nil {
		return fmt.Errorf("insert mail: %w", err)
	}
	return nil
}

// maxForOrg bounds the mails that we send for an organization per day. Its members choose who gets
// them, and must not be able to send any amount of mail through the operator's server.
const maxForOrg = 500

// AddForOrg queues a mail that an organization's members have caused, and reports whether it did: it
// does not if the organization has reached its limit for today.
func (s *Store) AddForOrg(tx *db.Tx, r Request) (added bool, err error) {
	var mails int64
	day := s.Now().Unix() / (24 * 60 * 60)
	if err := tx.Row(`INSERT INTO mail_quotas (org_id, day, mails) VALUES ($1, $2, 1)
		ON CONFLICT (org_id) DO UPDATE SET day = excluded.day,
			mails = CASE WHEN mail_quotas.day = excluded.day THEN mail_quotas.mails + 1 ELSE 1 END
		RETURNING mails`, r.OrgID, day).Scan(&mails); err != nil {
		return false, fmt.Errorf("count mail: %w", err)
	}
	if mails > maxForOrg {
		return false, nil
	}
	return true, s.Add(tx, r)
}

// AddInvitation queues a mail with an invitation's link, unless the organization has reached its limit
// for today. The inviter sees a link too, and can pass it on.
func (s *Store) AddInvitation(tx *db.Tx, orgID, invitationID string) error {
	_, err := s.AddForOrg(tx, Request{Kind: KindInvitation, OrgID: orgID, InvitationID: invitationID})
	return err
}

type queued struct {
	id        string
	kind      Kind
	body      []byte
	attempts  int64
	createdAt stamp.Time
}

// Pending reports whether mail is due.
func (s *Store) Pending(ctx context.Context) (due bool, err error) {
	err = s.DB.Read(ctx).Row(`SELECT EXISTS (SELECT 1 FROM mails WHERE next_at <= $1)`, stamp.Of(s.Now())).Scan(&due)
	if err != nil {
		return false, fmt.Errorf("look for mail: %w", err)
	}
	return due, nil
}

// due returns up to n mails that are due. Invitations come last, because an organization can make many
// at once, and users wait for the others.
func (s *Store) due(ctx context.Context, n int) ([]queued, error) {
	list, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (q queued, err error) {
		var kind string
		err = row.Scan(&q.id, &kind, &q.body, &q.attempts, &q.createdAt)
		q.kind = Kind(kind)
		return q, err
	}, `SELECT id, kind, body, attempts, created_at FROM mails
		WHERE next_at <= $1 ORDER BY CASE kind WHEN 'invitation' THEN 1 ELSE 0 END, next_at, id LIMIT $2`,
		stamp.Of(s.Now()), n)
	if err != nil {
		return nil, fmt.Errorf("list mail: %w", err)
	}
	return list, nil
}

// open returns a row's request.
func (s *Store) open(q queued) (Request, error) {
	body, err := s.Ring.Open(purpose, q.body)
	if err != nil {
		return Request{}, fmt.Errorf("open mail: %w", err)
	}
	r := Request{Kind: q.kind}
	if err := json.Unmarshal(body, &r); err != nil {
		return Request{}, fmt.Errorf("decode mail: %w", err)
	}
	return r, nil
}

func (s *Store) remove(ctx context.Context, mailID string) error {
	if _, err := s.DB.Exec(ctx, `DELETE FROM mails WHERE id = $1`, mailID); err != nil {
		return fmt.Errorf("delete mail: %w", err)
	}
	return nil
}

// Queued returns the number of waiting mails.
func (s *Store) Queued(ctx context.Context) (n int64, err error) {
	if err := s.DB.Read(ctx).Row(`SELECT count(*) FROM mails`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count mail: %w", err)
	}
	return n, nil
}
