package oidc

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/list"
	"steward/internal/page"
)

// addActivity writes a batch unless it was written before. It skips deleted clients.
func (s *Store) addActivity(ctx context.Context, b *batch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		inserted, err := tx.Exec(`INSERT INTO oidc_flushes (id, at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`,
			b.id, s.now())
		if err != nil {
			return fmt.Errorf("insert activity batch: %w", err)
		}
		if inserted == 0 {
			return nil
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
		return fmt.Errorf("read client: %w", err)
	}
	// This locks the row: the client cannot be deleted before its activity is there to be purged.
	updated, err := tx.Exec(`UPDATE oidc_client_states
		SET last_activity = CASE WHEN last_activity > $3 THEN last_activity ELSE $3 END
		WHERE org_id = $1 AND client_id = $2`, orgID, l.clientID, l.last)
	if err != nil {
		return fmt.Errorf("update last activity: %w", err)
	}
	if updated == 0 {
		return nil
	}
	newUsers, err := addDayUsers(tx, orgID, l)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO oidc_client_days (org_id, client_id, day, total, users)
		VALUES (@org_id, @client_id, @day, @total, @users)
		ON CONFLICT (org_id, client_id, day) DO UPDATE SET total = oidc_client_days.total + excluded.total,
		users = oidc_client_days.users + excluded.users`,
		db.Args{"org_id": orgID, "client_id": l.clientID, "day": l.day, "total": l.total, "users": newUsers}); err != nil {
		return fmt.Errorf("update activity: %w", err)
	}
	return nil
}

// addDayUsers stores a day's users and returns the number of new ones.
func addDayUsers(tx *db.Tx, orgID string, l line) (newUsers int64, err error) {
	for _, u := range l.users {
		n, err := tx.Exec(`INSERT INTO oidc_client_day_users (org_id, client_id, day, user_id) VALUES ($1, $2, $3, $4)
			ON CONFLICT (org_id, client_id, day, user_id) DO NOTHING`, orgID, l.clientID, l.day, u)
		if err != nil {
			return 0, fmt.Errorf("insert active user: %w", err)
		}
		newUsers += n
	}
	return newUsers, nil
}

// ClientActivity returns a client's activity in the last days, including today, oldest first. It
// returns NotFound if the client does not exist.
func (s *Store) ClientActivity(ctx context.Context, orgID, clientID string, days int) ([]ActivityDay, error) {
	q := s.DB.Read(ctx)
	var one int
	err := q.Row(`SELECT 1 FROM oidc_clients WHERE org_id = $1 AND id = $2`, orgID, clientID).Scan(&one)
	if errors.Is(err, db.ErrNoRows) {
		return nil, errs.Missing("OAuth client", clientID)
	}
	if err != nil {
		return nil, fmt.Errorf("read client: %w", err)
	}
	list, err := db.Collect(q, func(row db.Row) (d ActivityDay, err error) {
		err = row.Scan(&d.Date, &d.TotalAccess, &d.UniqueUsers)
		return d, err
	}, `SELECT day, total, users FROM oidc_client_days WHERE org_id = $1 AND client_id = $2 AND day > $3 ORDER BY day`,
		orgID, clientID, s.lastDayBefore(days))
	if err != nil {
		return nil, fmt.Errorf("list activity: %w", err)
	}
	return list, nil
}

// lastDayBefore returns the day before a period that ends today.
func (s *Store) lastDayBefore(days int) Day { return dayOf(s.now()) - Day(days) }

// AllActivity returns a page with the activity of all clients in an organization in the last days,
// including today, oldest first.
func (s *Store) AllActivity(
	ctx context.Context, orgID string, days int, p page.Paging,
) (page.Page[ClientActivityDay], error) {
	order := list.ByTime(`d.day`, `d.client_id`, func(d ClientActivityDay) (Day, string) { return d.Date, d.ClientID })
	order.Ascending = true
	order.Begin = []any{int64(s.lastDayBefore(days)) + 1, ""}
	// The join leaves out built-in clients, and deleted ones whose activity is not purged yet.
	activity := list.Query[ClientActivityDay]{
		Name: "activity", Where: list.Where(`d.org_id = ?`, orgID), Order: order,
		From:    list.Text(`oidc_client_days d JOIN oidc_clients c ON c.org_id = d.org_id AND c.id = d.client_id AND NOT c.internal`),
		Columns: `d.client_id, d.day, d.users`,
		Scan: func(row db.Row) (d ClientActivityDay, err error) {
			err = row.Scan(&d.ClientID, &d.Date, &d.UniqueUsers)
			return d, err
		},
	}
	return activity.Page(s.DB.Read(ctx), p, page.Unknown)
}
