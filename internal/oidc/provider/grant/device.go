package grant

import (
	"fmt"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// DeviceState is a device code's state.
type DeviceState string

// The states a device code can be in.
const (
	DevicePending  DeviceState = "pending"  // set by the device, waits for a user
	DeviceApproved DeviceState = "approved" // set by the user, waits for the device
	DeviceDenied   DeviceState = "denied"   // set by the user
	DeviceRedeemed DeviceState = "redeemed" // set by the device
)

const (
	// DeviceLifetime limits a device code's life.
	DeviceLifetime = 10 * time.Minute
	// PollInterval is the pause in seconds between two polls. A device that polls too early must wait
	// that much longer from then on.
	PollInterval = 5
)

// Device is a device that waits for a user's decision (RFC 8628).
type Device struct {
	UserCode string
	ClientID string
	Scopes   []string
	// Resource is the requested audience for access tokens; nil if there was none.
	Resource *string
	State    DeviceState
	// GrantID is set once the user has approved.
	GrantID *string
	// Interval is the pause in seconds between two polls.
	Interval   int64
	LastPolled *stamp.Time
	CreatedAt  stamp.Time
	ExpiresAt  stamp.Time
}

// Poll records a poll and reports whether it came too early, which lengthens the interval.
func (d *Device) Poll(now stamp.Time) (early bool) {
	early = d.LastPolled != nil && now.Sub(*d.LastPolled) < time.Duration(d.Interval)*time.Second
	d.LastPolled = &now
	if early {
		d.Interval += PollInterval
	}
	return early
}

const deviceColumns = `user_code, client_id, scopes, resource, state, grant_id, pause_seconds, last_polled_at, created_at,
	expires_at`

func scanDevice(row db.Row) (*Device, error) {
	var d Device
	var scopes string
	if err := row.Scan(&d.UserCode, &d.ClientID, &scopes, &d.Resource, &d.State, &d.GrantID, &d.Interval, &d.LastPolled, &d.CreatedAt,
		&d.ExpiresAt); err != nil {
		return nil, fmt.Errorf("read device: %w", err)
	}
	d.Scopes = strings.Fields(scopes)
	return &d, nil
}

// InsertDevice stores a device under its device code. It returns false if its user code is taken.
func InsertDevice(tx *db.Tx, d *Device, code string) (bool, error) {
	n, err := tx.Exec(`INSERT INTO oidc_devices (code_hash, `+deviceColumns+`)
		VALUES (@code_hash, @user_code, @client_id, @scopes, @resource, @state, @grant_id, @pause_seconds,
		@last_polled_at, @created_at, @expires_at) ON CONFLICT (user_code) DO NOTHING`,
		db.Args{
			"code_hash": seal.Hash(code), "user_code": d.UserCode, "client_id": d.ClientID,
			"scopes": strings.Join(d.Scopes, " "), "resource": d.Resource, "state": d.State,
			"grant_id": d.GrantID, "pause_seconds": d.Interval, "last_polled_at": d.LastPolled,
			"created_at": d.CreatedAt, "expires_at": d.ExpiresAt,
		})
	if err != nil {
		return false, fmt.Errorf("insert device: %w", err)
	}
	return n == 1, nil
}

// DeviceByUserCode returns the device with a user code. It returns db.ErrNoRows if the code is unknown
// or has expired.
func DeviceByUserCode(q db.Querier, userCode string, now stamp.Time) (*Device, error) {
	return scanDevice(q.Row(`SELECT `+deviceColumns+` FROM oidc_devices WHERE user_code = $1 AND expires_at > $2`,
		userCode, now))
}

// LockDevice returns the device with a device code, or db.ErrNoRows. It locks the row until the
// transaction ends.
func LockDevice(tx *db.Tx, code string) (*Device, error) {
	return scanDevice(tx.Row(`UPDATE oidc_devices SET pause_seconds = pause_seconds WHERE code_hash = $1
		RETURNING `+deviceColumns, seal.Hash(code)))
}

// DecideDevice stores the user's decision. It returns db.ErrNoRows if there is one already.
func DecideDevice(tx *db.Tx, userCode string, state DeviceState, grantID *string) error {
	n, err := tx.Exec(`UPDATE oidc_devices SET state = $2, grant_id = $3 WHERE user_code = $1 AND state = 'pending'`,
		userCode, state, grantID)
	if err != nil {
		return fmt.Errorf("update device: %w", err)
	}
	if n == 0 {
		return db.ErrNoRows
	}
	return nil
}

// SavePoll stores a device's last poll and the interval that it must keep.
func SavePoll(tx *db.Tx, code string, d *Device) error {
	if _, err := tx.Exec(`UPDATE oidc_devices SET last_polled_at = $2, pause_seconds = $3 WHERE code_hash = $1`,
		seal.Hash(code), d.LastPolled, d.Interval); err != nil {
		return fmt.Errorf("update device: %w", err)
	}
	return nil
}

// MarkDeviceRedeemed stores that the device has its tokens.
func MarkDeviceRedeemed(tx *db.Tx, code string) error {
	_, err := tx.Exec(`UPDATE oidc_devices SET state = 'redeemed' WHERE code_hash = $1`, seal.Hash(code))
	if err != nil {
		return fmt.Errorf("update device: %w", err)
	}
	return nil
}
