package oidc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/list"
	"steward/internal/page"
)

const (
	detailsColumns = clientColumns + `, s.user_count, s.last_activity`
	fromDetails    = `oidc_clients c
		JOIN (SELECT org_id AS state_org, client_id, user_count, last_activity FROM oidc_client_states) s
		ON s.state_org = c.org_id AND s.client_id = c.id`
)

func scanDetails(row db.Row) (ClientDetails, error) {
	var d ClientDetails
	var err error
	d.Client, err = scanClient(row, &d.UserCount, &d.LastActivity)
	return d, err
}

// List returns a page of an organization's clients, newest first, without built-in ones.
func (s *Store) List(ctx context.Context, orgID string, p page.Paging) (page.Page[ClientDetails], error) {
	q := s.DB.Read(ctx)
	var total int64
	if err := q.Row(`SELECT count(*) FROM oidc_clients WHERE org_id = $1 AND NOT internal`, orgID).Scan(&total); err != nil {
		return page.Page[ClientDetails]{}, fmt.Errorf("count clients: %w", err)
	}
	clients := list.Query[ClientDetails]{
		Name: "clients", From: list.Text(fromDetails), Where: list.Where(`c.org_id = ? AND NOT c.internal`, orgID),
		Columns: detailsColumns, Scan: scanDetails, Order: list.ByID(`c.id`, id.Client, func(d ClientDetails) string { return d.ID }),
	}
	return clients.Page(q, p, total)
}

// Get returns a client in an organization, or NotFound.
func (s *Store) Get(ctx context.Context, orgID, clientID string) (ClientDetails, error) {
	row := s.DB.Read(ctx).Row(`SELECT `+detailsColumns+` FROM `+fromDetails+` WHERE c.org_id = $1 AND c.id = $2`, orgID, clientID)
	d, err := scanDetails(row)
	if err != nil {
		return ClientDetails{}, notFound(err, clientID)
	}
	return d, nil
}

// registered reads a client as the protocol uses it, or returns NotFound. For a document's URI, it
// returns the client in the organization that requested the document last.
func (s *Store) registered(ctx context.Context, clientID string) (*Registered, error) {
	named := `c.id = $1`
	if IsDocumentURI(clientID) {
		named = `c.id = (SELECT n.id FROM oidc_clients n WHERE n.document_uri = $1
			AND NOT EXISTS (SELECT 1 FROM deleted_orgs d WHERE d.org_id = n.org_id) ORDER BY n.document_expires_at DESC LIMIT 1)`
	}
	row := s.DB.Read(ctx).Row(`SELECT `+clientColumns+`, secret_hash,
		(SELECT s.epoch FROM oidc_client_states s WHERE s.org_id = c.org_id AND s.client_id = c.id),
		EXISTS (SELECT 1 FROM deleted_orgs d WHERE d.org_id = c.org_id)
		FROM oidc_clients c WHERE `+named, clientID)
	var r Registered
	var err error
	r.Client, err = scanClient(row, &r.SecretHash, &r.Epoch, &r.Suspended)
	if err != nil {
		return nil, notFound(err, clientID)
	}
	slices.Sort(r.AllowedUserIDs)
	if text := r.encodeKeys(); text != nil {
		r.Keys, err = ParseKeys([]byte(*text), maxClientKeys)
	}
	return &r, err
}

// clientNames searches clients.
var clientNames = db.NameIndex{Table: "oidc_clients", ID: "id", Index: "oidc_clients_name"}

// Search returns an organization's clients by id or words in the name.
func (s *Store) Search(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error) {
	return clientNames.Find(s.DB.Read(ctx), caller.OrgID, text, limit)
}

// Audience is an API that a client has registered to accept tokens.
type Audience struct {
	orgID   string
	clients []string
}

// Admits reports whether a client may get tokens for the audience without a user's consent.
func (a *Audience) Admits(c *Registered) bool {
	return c.OrgID == a.orgID || slices.Contains(a.clients, c.ID)
}

// Audience returns the audience with a URI. It returns NotFound if no client has registered it.
func (s *Store) Audience(ctx context.Context, uri string) (*Audience, error) {
	var a Audience
	err := s.DB.Read(ctx).Row(`SELECT org_id, allowed_clients FROM oidc_clients WHERE audience = $1`, uri).
		Scan(&a.orgID, db.FromJSON(&a.clients))
	if errors.Is(err, db.ErrNoRows) {
		return nil, errs.New(errs.NotFound, "no client has registered the audience")
	}
	if err != nil {
		return nil, fmt.Errorf("read audience: %w", err)
	}
	return &a, nil
}
