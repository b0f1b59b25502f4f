package resource

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
)

// elsewhere reports whether another data directory has the resource's files.
func (m *Manager) elsewhere(p *Provisioned) bool {
	return p.Node != "" && p.Node != m.Node && m.Nodes != nil
}

// others returns the other known nodes.
func (m *Manager) others(ctx context.Context) ([]string, error) {
	if m.Nodes == nil {
		return nil, nil
	}
	return m.Nodes.Others(ctx)
}

// Requests to the node that has a resource's files.
const (
	askTables = "tables"
	askQuery  = "query"
	askKeys   = "keys"
	askRotate = "rotate"
	askDelete = "delete"
)

// RemotePath is the path for Remote, with http.ServeMux wildcards.
const RemotePath = "/resource/{id}/{verb}"

// RemoteRequest is a request from another node.
type RemoteRequest struct {
	// OrgID is the caller's organization.
	OrgID string      `json:"org_id"`
	Query *NewQuery   `json:"query,omitempty"`
	Keys  *remoteKeys `json:"keys,omitempty"`
}

// remoteKeys is a KeyQuery. Its prefix may be any bytes, which a JSON string cannot hold.
type remoteKeys struct {
	KeyQuery
	Prefix []byte
}

// ask sends a request to the node that has a resource's files.
func (m *Manager) ask(ctx context.Context, p *Provisioned, verb string, in RemoteRequest, out any) error {
	in.OrgID = p.OrgID
	err := m.Nodes.Call(ctx, p.Node, "/resource/"+p.ID+"/"+verb, in, out)
	if errs.KindOf(err) == errs.NotFound && verb != askDelete {
		return errs.Unavailablef(err, "%s %s cannot be reached: %s", p.Type.noun(), p.Name, err)
	}
	return err
}

func (m *Manager) tables(ctx context.Context, engine Databases, p *Provisioned) (tables []Table, err error) {
	if m.elsewhere(p) {
		err = m.ask(ctx, p, askTables, RemoteRequest{}, &tables)
		return tables, err
	}
	return engine.Tables(ctx, p)
}

// queryThere runs a statement on the node that has the database's files.
func (m *Manager) queryThere(ctx context.Context, p *Provisioned, q NewQuery) (rows Rows, err error) {
	err = m.ask(ctx, p, askQuery, RemoteRequest{Query: &q}, &rows)
	return rows, err
}

// keys returns a page of a store's keys.
func (m *Manager) keys(ctx context.Context, engine Stores, p *Provisioned, q KeyQuery) (keys Keys, err error) {
	if !m.elsewhere(p) {
		return engine.Keys(ctx, p, q)
	}
	in := RemoteRequest{Keys: &remoteKeys{KeyQuery: q, Prefix: []byte(q.Prefix)}}
	if err := m.ask(ctx, p, askKeys, in, &keys); err != nil {
		return Keys{}, err
	}
	for i := range keys.Keys {
		if err := keys.Keys[i].restore(); err != nil {
			return Keys{}, err
		}
	}
	return keys, nil
}

// restore decodes a key that did not fit into a JSON string.
func (k *Key) restore() error {
	if k.Base64 == "" {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(k.Base64)
	if err != nil {
		return fmt.Errorf("decode key: %w", err)
	}
	k.Key = string(raw)
	return nil
}

// rotateTimeout bounds the wait for the node that has the files.
const rotateTimeout = 3 * time.Second

// rotateThere tells the node with the files to close connections that used an old password. If it cannot
// be reached now, it learns of the change as all replicas do.
func (m *Manager) rotateThere(ctx context.Context, p *Provisioned) {
	if !m.elsewhere(p) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rotateTimeout)
	defer cancel()
	if err := m.ask(ctx, p, askRotate, RemoteRequest{}, nil); err != nil {
		m.Log.Info("another replica learns of new credentials later", "resource", p.ID, "node", p.Node, "error", err)
	}
}

// deleteThere tells the node with the files to delete them. If nobody has served that node for long, the
// files are gone.
func (m *Manager) deleteThere(ctx context.Context, p *Provisioned) error {
	err := m.ask(ctx, p, askDelete, RemoteRequest{}, nil)
	if errs.KindOf(err) == errs.NotFound {
		m.Log.Warn("the files of a deleted resource are on a node that is gone", "resource", p.ID, "node", p.Node)
		return nil
	}
	return err
}

// Remote executes another node's request for a resource whose files are here. It never asks another node
// itself.
func (m *Manager) Remote(ctx context.Context, id, verb string, in RemoteRequest) (any, error) {
	p, err := m.Store.one(m.Store.DB.Read(ctx), `WHERE id = $1`, id)
	if errors.Is(err, db.ErrNoRows) || err == nil && p.OrgID != in.OrgID {
		return nil, errs.Unavailablef(nil, "resource %s has been deleted meanwhile", id)
	}
	if err != nil {
		return nil, err
	}
	if p.Node != m.Node {
		return nil, errs.Unavailablef(nil, "node %s does not have the files of %s", m.Node, id)
	}
	e, err := m.engineOf(p)
	if err != nil {
		return nil, err
	}
	switch verb {
	case askRotate:
		return struct{}{}, e.Rotate(ctx, p)
	case askDelete:
		if p.State != Deleting {
			return nil, errs.New(errs.Conflict, "%s %s is not being deleted", p.Type.noun(), p.Name)
		}
		return struct{}{}, e.Delete(ctx, p)
	}
	if p.State != Active && p.State != Rotating {
		return nil, errs.Unavailablef(nil, "resource %s has been deleted meanwhile", id)
	}
	return remoteContent(ctx, e, p, verb, in)
}

// remoteContent answers requests for a resource's contents.
func remoteContent(ctx context.Context, e Engine, p *Provisioned, verb string, in RemoteRequest) (any, error) {
	databases, _ := e.(Databases)
	stores, _ := e.(Stores)
	switch {
	case verb == askTables && databases != nil:
		return databases.Tables(ctx, p)
	case verb == askQuery && databases != nil && in.Query != nil:
		args, err := in.Query.values()
		if err != nil {
			return nil, err
		}
		rows, err := databases.Query(ctx, p, in.Query.Query, args, maxRows)
		return rows.bounded(), err
	case verb == askKeys && stores != nil && in.Keys != nil:
		q := in.Keys.KeyQuery
		q.Prefix = string(in.Keys.Prefix)
		keys, err := stores.Keys(ctx, p, q)
		for i := range keys.Keys {
			keys.Keys[i].setBase64()
		}
		return keys, err
	}
	return nil, errs.New(errs.NotFound, "no such request")
}
