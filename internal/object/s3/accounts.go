package s3

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/s3err"

	"steward/internal/errs"
	"steward/internal/object"
)

// accounts is the auth.IAMService whose accounts are the credentials of buckets. They cannot be
// changed through it.
type accounts struct {
	buckets *object.Buckets
	limit   time.Duration
	log     *slog.Logger
}

var _ auth.IAMService = (*accounts)(nil)

// GetUserAccount returns the account of an access key.
func (a *accounts) GetUserAccount(access string) (auth.Account, error) {
	ctx, cancel := context.WithTimeout(context.Background(), a.limit)
	defer cancel()
	b, err := a.buckets.ByAccessKey(ctx, strings.Clone(access))
	switch {
	case errs.KindOf(err) == errs.NotFound:
		return auth.Account{}, auth.ErrNoSuchUser
	case err != nil:
		return auth.Account{}, apiError(a.log, "look up credentials", err, s3err.ErrAccessDenied)
	}
	// With this role, requests to create a bucket reach the gateway.
	return auth.Account{Access: b.AccessKey, Secret: b.SecretKey, Role: auth.RoleUserPlus}, nil
}

// ResolveAccounts returns the keys that do not exist.
func (a *accounts) ResolveAccounts(keys []string) (missing []string, err error) {
	for _, key := range keys {
		_, err := a.GetUserAccount(key)
		if errors.Is(err, auth.ErrNoSuchUser) {
			missing = append(missing, key)
		} else if err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// CreateAccount is refused.
func (a *accounts) CreateAccount(auth.Account) error { return errUnsupported() }

// UpdateUserAccount is refused.
func (a *accounts) UpdateUserAccount(string, auth.MutableProps) error { return errUnsupported() }

// DeleteUserAccount is refused.
func (a *accounts) DeleteUserAccount(string) error { return errUnsupported() }

// ListUserAccounts is refused.
func (a *accounts) ListUserAccounts() ([]auth.Account, error) { return nil, errUnsupported() }

// Shutdown does nothing.
func (a *accounts) Shutdown() error { return nil }

func errUnsupported() error { return s3err.GetAPIError(s3err.ErrAdminMethodNotSupported) }
