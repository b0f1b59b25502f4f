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

// elsewhere reports whether the files of a resource are in another data directory than this process's.
func (m *Manager) elsewhere(p *Provisioned) bool {
	return p.Node != "" && p.Node != m.Node && m.Call != nil
}

// others returns the other nodes that are known.
func (m *Manager) others(ctx context.Context) ([]string, error) {
	if m.Others == nil {
		return nil, nil
	}
	return m.Others(ctx)
}

// What a node is asked to do with a resource whose files it has.
const (
	askTables = "tables"
	askQuery  = "query"
	askKeys   = "keys"
	askRotate = "rotate"
	askDelete = "delete"
)

// RemotePath is the path of what Remote serves, with wildcards of http.ServeMux.
const RemotePath = "/resource/{id}/{verb}"

// RemoteRequest is a request of another node.
type RemoteRequest struct {
	// OrgID is the organization that the caller belongs to.
	OrgID string      `json:"org_id"`
	Query *NewQuery   `json:"query,omitempty"`
	Keys  *remoteKeys `json:"keys,omitempty"`
}

// remoteKeys is a KeyQuery, whose prefix may be any bytes.
type remoteKeys struct {
	KeyQuery
	Prefix []byte
}

// ask asks the node that has the files of a resource.
func (m *Manager) ask(ctx context.Context, p *Provisioned, verb string, in RemoteRequest, out any) error {
	in.OrgID = p.OrgID
	err := m.Call(ctx, p.Node, "/resource/"+p.ID+"/"+verb, in, out)
	if errs.KindOf(err) == errs.NotFound && verb != askDelete {
		return errs.Unavailablef(err, "%s %s cannot be reached: %s", p.Type.noun(), p.Name, err)
	}
	return err
}

// tables returns the tables of a database.
func (m *Manager) tables(ctx context.Context, engine Databases, p *Provisioned) (tables []Table, err error) {
	if m.elsewhere(p) {
		err = m.ask(ctx, p, askTables, RemoteRequest{}, &tables)
		return tables, err
	}
	return engine.Tables(ctx, p)
}

// queryThere has the node with the files of a database run a statement.
func (m *Manager) queryThere(ctx context.Context, p *Provisioned, q NewQuery) (rows Rows, err error) {
	err = m.ask(ctx, p, askQuery, RemoteRequest{Query: &q}, &rows)
	return rows, err
}

// keys returns a page of the keys of a store.
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

// restore sets the key to what Base64 says, if it could not be text.
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

// rotateTimeout bounds how long a rotation waits for the node that has the files.
const rotateTimeout = 3 * time.Second

// rotateThere has the node with the files of a resource close what was opened with an old password. If it
// cannot be asked now, it learns of the change as all replicas do.
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

// deleteThere has the node with the files of a resource delete them. If nobody has served that node for
// long, they are gone.
func (m *Manager) deleteThere(ctx context.Context, p *Provisioned) error {
	err := m.ask(ctx, p, askDelete, RemoteRequest{}, nil)
	if errs.KindOf(err) == errs.NotFound {
		m.Log.Warn("the files of a deleted resource are on a node that is gone", "resource", p.ID, "node", p.Node)
		return nil
	}
	return err
}

// Remote executes what another node asks for, about a resource whose files are here. It never asks
// another node itself.
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

// remoteContent returns what a resource holds.
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
