package provider

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/stamp"
)

const (
	// codeLife is how long an authorization code can be redeemed (RFC 9700 asks for a minute at most).
	codeLife = time.Minute
	// graceTime is how long a refresh token that was used may come again, for callers that refresh at the same time or lost the answer.
	graceTime = 10 * time.Second
	// maxTokenLife is the most that a client may ask for its access tokens, so the longest that a revocation must be remembered.
	maxTokenLife = 24 * time.Hour
	// skew is how far the clocks of replicas may be apart.
	skew = 5 * time.Second
)

// grant is what a user let a client do, once. It is born with a code or with the approval of a device, redeemed once, and then carries the
// family of refresh tokens.
type grant struct {
	ID           string
	OrgID        string
	ClientID     string
	UserID       string
	SessionID    *string // the sign-in that refresh tokens end with; nil when the user granted offline access
	Scopes       []string
	ClientEpoch  int64
	ConsentEpoch int64
	AuthTime     stamp.Time
	Nonce        *string

	CodeHash      []byte
	CodeExpiresAt *stamp.Time
	RedirectURI   *string
	Challenge     *string
	JKT           *string // the DPoP key that the code or the family is bound to
	Salt          []byte

	RedeemedAt       *stamp.Time
	Generation       int64
	RotatedAt        *stamp.Time
	RefreshExpiresAt *stamp.Time
	RevokedAt        *stamp.Time
	CreatedAt        stamp.Time
	ExpiresAt        stamp.Time
}

func newGrant(now time.Time) *grant {
	g := &grant{ID: id.At("grt", now), Salt: make([]byte, 16), CreatedAt: stamp.Of(now)}
	rand.Read(g.Salt) // never fails (crypto/rand)
	// Until it is redeemed; then the row is kept for as long as something that it gave can live.
	g.ExpiresAt = g.CreatedAt.Add(codeLife + maxTokenLife + skew)
	return g
}

// refreshToken is the token of a generation: `rt_<grant>.<generation>.<mac>`. It is derived, so that a concurrent repeat gets the same one
// and nothing of it needs storing; without the salt of the row and the installation's key nobody can make one.
func (p *Provider) refreshToken(g *grant, generation int64) string {
	name := strings.TrimPrefix(g.ID, "grt_") + "." + strconv.FormatInt(generation, 36)
	return refreshPrefix + name + "." + base64.RawURLEncoding.EncodeToString(p.mac("refresh", []byte(name), g.Salt))
}

const refreshPrefix = "rt_"

// parsedRefresh is what a refresh token says, before anything of it is proved.
type parsedRefresh struct {
	grantID    string
	generation int64
}

func parseRefresh(token string) (parsedRefresh, bool) {
	rest, ok := strings.CutPrefix(token, refreshPrefix)
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 || !id.Is("grt", "grt_"+parts[0]) {
		return parsedRefresh{}, false
	}
	generation, err := strconv.ParseInt(parts[1], 36, 64)
	return parsedRefresh{grantID: "grt_" + parts[0], generation: generation}, err == nil && generation > 0
}

// proves tells whether a token is the grant's own of that generation.
func (p *Provider) proves(g *grant, generation int64, token string) bool {
	return subtle.ConstantTimeCompare([]byte(p.refreshToken(g, generation)), []byte(token)) == 1
}

// mac is keyed with the installation's own secret; the purpose keeps one use from serving as another.
func (p *Provider) mac(purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, p.secret)
	h.Write([]byte(purpose))
	for _, part := range parts {
		h.Write([]byte{0, byte(len(part) >> 8), byte(len(part))})
		h.Write(part)
	}
	return h.Sum(nil)
}
