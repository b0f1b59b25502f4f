package oidc

import (
	"context"
	"errors"

	"steward/internal/db"
	"steward/internal/page"
)

// addActivity writes a batch, unless it was written before. What belongs to a client that is gone is left out.
func (s *Store) addActivity(ctx context.Context, b *batch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		fresh, err := tx.Exec(`INSERT INTO oidc_flushes (id, at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, b.id, s.now())
		if err != nil || fresh == 0 {
			return err
		}
		for _, l := range b.lines {
			if err := addLine(tx, l); err != nil {
				return err
			}
		}
		return nil
	})
}

func addLine(tx *db.Tx, l line) error {
	var orgID string
	err := tx.Row(`SELECT org_id FROM oidc_clients WHERE id = $1`, l.clientID).Scan(&orgID)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	// Holding this row keeps the client from being deleted before its activity is there to be removed with it.
	held, err := tx.Exec(`UPDATE oidc_client_states SET last_activity = CASE WHEN last_activity > $3 THEN last_activity ELSE $3 END
		WHERE org_id = $1 AND client_id = $2`, orgID, l.clientID, l.last)
	if err != nil || held == 0 {
		return err
	}
	var users int64
	for _, u := range l.users {
		n, err := tx.Exec(`INSERT INTO oidc_client_day_users (org_id, client_id, day, user_id) VALUES ($1, $2, $3, $4)
			ON CONFLICT (org_id, client_id, day, user_id) DO NOTHING`, orgID, l.clientID, l.day, u)
		if err != nil {
			return err
		}
		users += n
	}
	_, err = tx.Exec(`INSERT INTO oidc_client_days (org_id, client_id, day, total, users) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (org_id, client_id, day) DO UPDATE SET total = oidc_client_days.total + excluded.total,
		users = oidc_client_days.users + excluded.users`, orgID, l.clientID, l.day, l.total, users)
	return err
}

// ClientActivity gives what a client did on the last days, today included, oldest first. A client that is not there is NotFound.
func (s *Store) ClientActivity(ctx context.Context, orgID, clientID string, days int) ([]DayOfClient, error) {
	q := s.DB.Read(ctx)
	var one int
	if err := q.Row(`SELECT 1 FROM oidc_clients WHERE org_id = $1 AND id = $2`, orgID, clientID).Scan(&one); err != nil {
		return nil, missing(err, clientID)
	}
	return db.Collect(q, func(row db.Row) (d DayOfClient, err error) {
		err = row.Scan(&d.Date, &d.TotalAccess, &d.UniqueUsers)
		return d, err
	}, `SELECT day, total, users FROM oidc_client_days WHERE org_id = $1 AND client_id = $2 AND day > $3 ORDER BY day`,
		orgID, clientID, s.since(days))
}

func (s *Store) since(days int) Day { return dayOf(s.now()) - Day(days) }

// AllActivity gives a page of what all clients of an organization did on the last days, today included, oldest first.
func (s *Store) AllActivity(ctx context.Context, orgID string, days int, p page.Paging) (page.Page[DayOfAll], error) {
	day, client := int64(s.since(days)), "oad" // sorts after every id of a client
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&day, &client); err != nil {
			return page.Page[DayOfAll]{}, err
		}
		p.Offset = 0
	}
	// A deleted client's days may wait to be purged.
	rows, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (d DayOfAll, err error) {
		err = row.Scan(&d.ClientID, &d.Date, &d.UniqueUsers)
		return d, err
	}, `SELECT d.client_id, d.day, d.users FROM oidc_client_days d JOIN oidc_clients c ON c.org_id = d.org_id AND c.id = d.client_id
		WHERE d.org_id = $1 AND d.day >= $2 AND (d.day > $2 OR d.client_id > $3) ORDER BY d.day, d.client_id LIMIT $4 OFFSET $5`,
		orgID, day, client, p.Limit+1, p.Offset)
	return page.New(rows, page.Unknown, p, func(d DayOfAll) page.Cursor { return page.NewCursor(int64(d.Date), d.ClientID) }), err
}
