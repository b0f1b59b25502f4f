package token

import (
	"context"
	"errors"
	"slices"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/stamp"
)

// deviceCode exchanges a device code for tokens, once the user has approved.
func (h *Handler) deviceCode(ctx context.Context, req *request) (*response, error) {
	var g *grant.Grant
	var refused error
	err := h.DB.Write(ctx, func(tx *db.Tx) (err error) {
		g, refused, err = h.poll(tx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	return h.issueIfUsable(ctx, req, g)
}

// poll redeems the grant behind an approved device code. As in redeemCode, the refusal is a separate
// result from the error.
func (h *Handler) poll(tx *db.Tx, req *request) (g *grant.Grant, refused, err error) {
	now := stamp.Of(h.Now())
	d, err := grant.LockDevice(tx, req.deviceCode)
	if errors.Is(err, db.ErrNoRows) || err == nil && d.ClientID != req.client.ID {
		return nil, oauth.ErrGrant, nil
	}
	if err != nil {
		return nil, nil, err
	}
	switch {
	case d.ExpiresAt <= now:
		return nil, oauth.NewError("expired_token", "the device code has expired"), nil
	case d.State == grant.DeviceDenied:
		return nil, oauth.NewError(oauth.AccessDenied, "the user has declined"), nil
	case d.State == grant.DeviceRedeemed:
		return nil, oauth.ErrGrant, grant.Revoke(tx, *d.GrantID, now)
	case d.State == grant.DevicePending:
		return nil, pending(d, now), grant.SavePoll(tx, req.deviceCode, d)
	}
	g, err = grant.ByID(tx, *d.GrantID)
	if err != nil {
		return nil, nil, err
	}
	if err := h.Audiences.CheckSame(req.audience, g.Resource); err != nil {
		return nil, err, nil
	}
	if err := grant.MarkDeviceRedeemed(tx, req.deviceCode); err != nil {
		return nil, nil, err
	}
	redeemed, err := h.Grants.Redeem(tx, g, grant.Redemption{Client: req.client, JKT: req.jkt, Refresh: !declinedOffline(d, g)})
	if err != nil {
		return nil, nil, err
	}
	if !redeemed {
		return g, oauth.ErrGrant, nil
	}
	return g, nil, nil
}

// declinedOffline reports whether the user has declined to keep a device connected. A device has no
// session that its refresh tokens could end with.
func declinedOffline(d *grant.Device, g *grant.Grant) bool {
	return slices.Contains(d.Scopes, oidc.ScopeOfflineAccess) && !slices.Contains(g.Scopes, oidc.ScopeOfflineAccess)
}

// pending records a poll and returns the error that tells the device to wait.
func pending(d *grant.Device, now stamp.Time) error {
	if d.Poll(now) {
		return oauth.NewError("slow_down", "the device polls too often")
	}
	return oauth.NewError("authorization_pending", "the user has not decided yet")
}
