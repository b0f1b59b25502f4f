package grant

import (
	"time"

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
