// Package operator lets a server's operator do without a key: create a root key, make a link for
// resetting a password or setting up the installation, create an organization, and encrypt all
// secrets with a new master key. The commands ask the server that runs on the data directory, over a
// socket that only the server's user can connect to, or do the work themselves if none runs.
package operator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/app/masterkey"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/cli/session"
	"steward/internal/db"
	"steward/internal/db/move"
	"steward/internal/errs"
	"steward/internal/oidc/provider/passkey"
	browser "steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
	"steward/internal/oidc/upstream"
	"steward/internal/seal"
)

// Operator does the operations. In the audit log they have no caller.
type Operator struct {
	db       *db.DB
	accounts *account.Store
	keys     *apikey.Store
	log      *audit.Store
	// ring returns the master key's ring.
	ring    func(ctx context.Context) (*seal.Ring, error)
	baseURL string
	// Backup streams a backup, and Migrate moves the rows to another database, if they are set.
	Backup, Migrate http.Handler
}

// New returns the operator for an installation whose links begin with baseURL.
func New(d *db.DB, ring *seal.Ring, baseURL string) *Operator {
	log := &audit.Store{DB: d, Now: time.Now}
	return &Operator{
		db: d,
		accounts: &account.Store{
			DB: d, Now: time.Now, Audit: log,
			FactorsGone: []func(*db.Tx, string) error{passkey.RemoveAll, signin.RemoveAuthenticator, upstream.RemoveAll, browser.RemoveAll},
		},
		keys:    &apikey.Store{DB: d, Now: time.Now},
		log:     log,
		ring:    func(context.Context) (*seal.Ring, error) { return ring, nil },
		baseURL: baseURL,
	}
}

// operation is something that an operator does: in the server if one is running, over its path on
// the control socket, or else in this process.
type operation[In, Out any] struct {
	path string
	do   func(o *Operator, ctx context.Context, in In) (Out, error)
}

// rootKeyInput holds root-key's options.
type rootKeyInput struct {
	RevokeOthers bool `json:"revoke_others"`
}

// newKey is rootKey's result.
type newKey struct {
	Value   string `json:"value"`
	Revoked int64  `json:"revoked"` // number of deleted root keys
}

// resetInput names the user whose password is reset, and whether to remove the second factors too.
type resetInput struct {
	Email        string `json:"email"`
	ClearFactors bool   `json:"clear_factors"`
}

// organizationInput names a new organization.
type organizationInput struct {
	Name string `json:"name"`
}

// newOrganization is createOrganization's result.
type newOrganization struct {
	ID      string `json:"id"`
	RootKey string `json:"root_key"`
}

func rootKeyOperation() operation[rootKeyInput, newKey] {
	return operation[rootKeyInput, newKey]{"/root-key", (*Operator).rootKey}
}

func resetOperation() operation[resetInput, account.Reset] {
	return operation[resetInput, account.Reset]{"/reset-password", (*Operator).resetPassword}
}

func organizationOperation() operation[organizationInput, newOrganization] {
	return operation[organizationInput, newOrganization]{"/organization", (*Operator).createOrganization}
}

// rootKey creates another root key for the first owner, and deletes the others if asked to.
func (o *Operator) rootKey(ctx context.Context, in rootKeyInput) (newKey, error) {
	owner, err := o.accounts.FirstOwner(ctx)
	if err != nil {
		return newKey{}, err
	}
	k := newKey{Value: apikey.NewValue()}
	ctx = auth.With(ctx, &auth.Caller{OrgID: owner.OrgID}) // the operator, not the owner
	err = o.db.Write(ctx, func(tx *db.Tx) error {
		if in.RevokeOthers {
			k.Revoked, err = o.revokeRootKeys(tx, owner.OrgID)
			if err != nil {
				return err
			}
		}
		if err := o.keys.MakeRoot(tx, owner.OrgID, owner.UserID, k.Value); err != nil {
			return err
		}
		return o.log.Record(tx, "apikey.root", owner.UserID)
	})
	return k, err
}

// revokeRootKeys deletes an organization's root keys and returns their number.
func (o *Operator) revokeRootKeys(tx *db.Tx, orgID string) (int64, error) {
	ids, err := o.keys.DeleteRoots(tx, orgID)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := o.log.Record(tx, "apikey.delete", id); err != nil {
			return 0, err
		}
	}
	return int64(len(ids)), nil
}

// errBaseURL is returned if we know no URL for a link to begin with.
var errBaseURL = errs.New(errs.Invalid, "set --base-url, with which the link begins")

// resetPassword returns a link that lets a user set a new password.
func (o *Operator) resetPassword(ctx context.Context, in resetInput) (account.Reset, error) {
	if o.baseURL == "" {
		return account.Reset{}, errBaseURL
	}
	token, expires, err := o.accounts.ResetByEmail(ctx, in.Email, in.ClearFactors)
	if err != nil {
		return account.Reset{}, err
	}
	return account.Reset{Link: account.ResetLink(o.baseURL, token), ExpiresAt: expires}, nil
}

// createOrganization creates an organization with an owner and a root key.
func (o *Operator) createOrganization(ctx context.Context, in organizationInput) (newOrganization, error) {
	first := account.NewFirst()
	created := newOrganization{ID: first.OrgID, RootKey: apikey.NewValue()}
	ctx = auth.With(ctx, &auth.Caller{OrgID: first.OrgID}) // the operator, not the owner
	err := o.db.Write(ctx, func(tx *db.Tx) error {
		if err := o.accounts.CreateOrg(tx, first, in.Name); err != nil {
			return err
		}
		return o.keys.MakeRoot(tx, first.OrgID, first.UserID, created.RootKey)
	})
	return created, err
}

// newRootKey creates another root key for the first owner and prints it. If asked to, it deletes the
// other root keys, and prints their number on standard error.
func newRootKey(ctx context.Context, p session.Program, cfg config.Config, revokeOthers bool) error {
	k, err := rootKeyOperation().run(ctx, cfg, rootKeyInput{revokeOthers})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(p.Out, k.Value); err != nil {
		return err
	}
	if !revokeOthers {
		return nil
	}
	_, err = fmt.Fprintf(p.Err, "%d other root keys were deleted. Keys that were created with them stay valid; "+
		"see steward apikey list.\n", k.Revoked)
	return err
}

// resetPassword prints a link that lets a user set a new password. If asked to, it removes the
// user's second factors, and says so on standard error.
func resetPassword(ctx context.Context, p session.Program, cfg config.Config, reset resetInput) error {
	r, err := resetOperation().run(ctx, cfg, reset)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(p.Out, "%s\nThe link can be used once, until %v.\n", r.Link, r.ExpiresAt); err != nil {
		return err
	}
	if !reset.ClearFactors {
		return nil
	}
	_, err = fmt.Fprintln(p.Err, "The second factors of the user were removed, and all sessions ended.")
	return err
}

// createOrganization creates an organization with an owner, and prints the owner's root key. It
// prints the organization's id on standard error.
func createOrganization(ctx context.Context, p session.Program, cfg config.Config, name string) error {
	created, err := organizationOperation().run(ctx, cfg, organizationInput{name})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(p.Out, created.RootKey); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Err, "The organization %s was created. The root key of its owner is shown only now.\n", created.ID)
	return err
}

// run runs the operation in the server that uses the data directory, or in this process if there is
// none.
func (op operation[In, Out]) run(ctx context.Context, cfg config.Config, in In) (out Out, err error) {
	err = askServer(ctx, cfg.Data, op.path, in, &out)
	if !errors.Is(err, ErrNoServer) {
		return out, err
	}
	o, closeAll, err := openOperator(ctx, cfg)
	if err != nil {
		return out, err
	}
	defer closeAll()
	return op.do(o, ctx, in)
}

// openOperator opens the database for an operator. It returns NotFound if there is no installation,
// and Conflict if another process uses a SQLite database's data directory.
func openOperator(ctx context.Context, cfg config.Config) (o *Operator, closeAll func(), err error) {
	d, closeAll, err := Open(ctx, cfg, false)
	if err != nil {
		return nil, nil, err
	}
	baseURL := cfg.BaseURL
	if last, err := datadir.ReadAddresses(cfg.Data); err == nil && baseURL == "" {
		baseURL = last.BaseURL // only the links need it
	}
	o = New(d, nil, baseURL)
	o.ring = func(ctx context.Context) (*seal.Ring, error) { return masterkey.Existing(ctx, d, cfg) }
	if err = move.CheckHere(d.Read(ctx)); err == nil {
		_, err = o.accounts.FirstOwner(ctx)
	}
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return o, closeAll, nil
}

// Open opens an installation's database, if no server uses its data directory. A PostgreSQL database
// needs the directory only for the files there.
func Open(ctx context.Context, cfg config.Config, files bool) (d *db.DB, closeAll func(), err error) {
	release := func() {}
	if cfg.DatabaseURL == "" {
		release, err = LockInstallation(cfg.Data)
	} else if files {
		release, err = lockDirectory(cfg.Data)
	}
	if err != nil {
		return nil, nil, err
	}
	d, err = db.Open(ctx, cfg.Database())
	if err != nil {
		release()
		return nil, nil, err
	}
	return d, func() {
		_ = d.Close() // nothing is lost: all writes are committed
		release()
	}, nil
}

// LockInstallation locks a data directory that has a database, and creates none.
func LockInstallation(dir string) (release func(), err error) {
	if _, err := os.Stat(datadir.DatabaseFile(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil, errs.New(errs.NotFound,
			"there is no installation in %s; name its directory with --data, or start one with steward serve", dir)
	}
	lock, err := datadir.Acquire(dir)
	if errs.KindOf(err) == errs.Conflict { // its process does not listen on the control socket
		reason := ""
		if len(socketPath(dir)) > maxSocketPath {
			reason = fmt.Sprintf(" because its path is longer than %d bytes", maxSocketPath)
		}
		return nil, fmt.Errorf("%w, which does not take commands on %s%s; wait if it is another command, or stop it, and try again",
			err, socketPath(dir), reason)
	}
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}

// lockDirectory locks an existing data directory, which may have no database because the rows are in
// PostgreSQL.
func lockDirectory(dir string) (release func(), err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, errs.New(errs.NotFound, "there is no data directory %s; name it with --data", dir)
	}
	lock, err := datadir.Acquire(dir)
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}
