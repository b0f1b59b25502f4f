package grant

import (
	"time"

	"steward/internal/stamp"
)

// DeviceState is the state of a device code.
type DeviceState string

// The states of a device code.
const (
	DevicePending  DeviceState = "pending"  // set by the device, waits for a user
	DeviceApproved DeviceState = "approved" // set by the user, waits for the device
	DeviceDenied   DeviceState = "denied"   // set by the user
	DeviceRedeemed DeviceState = "redeemed" // set by the device
)

const (
	// DeviceLifetime is how long a device code is valid.
	DeviceLifetime = 10 * time.Minute
	// PollInterval is the number of seconds that a device waits between two polls. One that polls too
	// early has to wait for that much longer.
	PollInterval = 5
)

// Device is a device that waits for the decision of a user (RFC 8628).
type Device struct {
	UserCode string
	ClientID string
	Scopes   []string
	// Resource is the requested audience of access tokens; nil if there was none.
	Resource *string
	State    DeviceState
	// GrantID is set once the user has approved.
	GrantID *string
	// Interval is the number of seconds between two polls.
	Interval   int64
	LastPolled *stamp.Time
	CreatedAt  stamp.Time
	ExpiresAt  stamp.Time
}

// Poll records a poll at a time and reports whether it came too early, which lengthens the interval.
func (d *Device) Poll(now stamp.Time) (early bool) {
	early = d.LastPolled != nil && now.Sub(*d.LastPolled) < time.Duration(d.Interval)*time.Second
	d.LastPolled = &now
	if early {
		d.Interval += PollInterval
	}
	return early
}
