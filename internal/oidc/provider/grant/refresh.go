package grant

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
)

// ReuseGrace is the time during which we accept a used refresh token again, for clients that refresh
// concurrently or have lost the response.
const ReuseGrace = 10 * time.Second

const refreshPrefix = "rt_"

// IsRefreshToken reports whether a token looks like a refresh token.
func IsRefreshToken(token string) bool { return strings.HasPrefix(token, refreshPrefix) }

// RefreshToken returns the refresh token for the grant's current generation.
func (s *Store) RefreshToken(g *Grant) string { return s.refreshToken(g, g.Generation) }

func (s *Store) refreshToken(g *Grant, generation int64) string {
	name := strings.TrimPrefix(g.ID, prefix+"_") + "." + strconv.FormatInt(generation, 36)
	mac := s.Key.MAC("refresh", []byte(name), g.Salt)
	return refreshPrefix + name + "." + base64.RawURLEncoding.EncodeToString(mac)
}

// ByRefreshToken returns the grant and the generation for a client's refresh token. It returns
// db.ErrNoRows if the token is malformed, forged, forgotten, or issued to another client.
func (s *Store) ByRefreshToken(ctx context.Context, clientID, token string) (g *Grant, generation int64, err error) {
	grantID, generation, ok := parseRefreshToken(token)
	if !ok {
		return nil, 0, db.ErrNoRows
	}
	g, err = ByID(s.DB.Read(ctx), grantID)
	if err != nil {
		return nil, 0, err
	}
	genuine := subtle.ConstantTimeCompare([]byte(s.refreshToken(g, generation)), []byte(token)) == 1
	if !genuine || g.ClientID != clientID {
		return nil, 0, db.ErrNoRows
	}
	return g, generation, nil
}

// parseRefreshToken parses a refresh token without verifying it.
func parseRefreshToken(token string) (grantID string, generation int64, ok bool) {
	rest, found := strings.CutPrefix(token, refreshPrefix)
	parts := strings.Split(rest, ".")
	if !found || len(parts) != 3 || !id.Is(prefix, prefix+"_"+parts[0]) {
		return "", 0, false
	}
	generation, err := strconv.ParseInt(parts[1], 36, 64)
	if err != nil || generation < 1 {
		return "", 0, false
	}
	return prefix + "_" + parts[0], generation, true
}

// ErrReused means that a refresh token was used more than ReuseGrace ago.
var ErrReused = errors.New("the refresh token was used before")

// Rotate replaces a generation's refresh token with the next one and returns the grant. During
// ReuseGrace, a used token gets the same successor again. After that it counts as stolen: Rotate
// revokes the grant and returns it together with ErrReused.
func (s *Store) Rotate(ctx context.Context, grantID string, generation int64) (*Grant, error) {
	var g *Grant
	reused := false
	err := s.DB.Write(ctx, func(tx *db.Tx) (err error) {
		g, reused, err = rotate(tx, grantID, generation, s.now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rotate refresh token: %w", err)
	}
	if reused {
		return g, ErrReused
	}
	return g, nil
}

func rotate(tx *db.Tx, grantID string, generation int64, now stamp.Time) (g *Grant, reused bool, err error) {
	g, err = ByID(tx, grantID)
	if err != nil {
		return nil, false, err
	}
	if g.RevokedAt == nil && g.Generation == generation {
		n, err := tx.Exec(`UPDATE oidc_grants SET generation = generation + 1, rotated_at = $3
			WHERE id = $1 AND generation = $2 AND revoked_at IS NULL`, g.ID, g.Generation, now)
		if err != nil {
			return nil, false, fmt.Errorf("advance grant: %w", err)
		}
		if n == 1 {
			g.Generation++
			return g, false, nil
		}
		g, err = ByID(tx, grantID) // a concurrent request has advanced or revoked it
		if err != nil {
			return nil, false, err
		}
	}
	if g.RevokedAt == nil && g.Generation == generation+1 && now.Sub(*g.RotatedAt) <= ReuseGrace {
		return g, false, nil
	}
	return g, true, Revoke(tx, grantID, now)
}
