package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"go.yaml.in/yaml/v3"

	"steward/internal/app/config"
	"steward/internal/audit"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/resource"
	"steward/internal/resource/embedkv"
	"steward/internal/resource/kvcopy"
	"steward/internal/resource/libsql"
	"steward/internal/resource/postgres"
	"steward/internal/resource/rediskv"
)

// stageResources is the stage after the rows were moved.
const stageResources = "resources"

// Outcome is the result of moving an embedded database or key-value store.
type Outcome struct {
	Type   resource.Type `json:"type"`
	OrgID  string        `json:"org_id"`
	Region string        `json:"region"`
	Name   string        `json:"name"`
	// Engine has it now, and Keys counts the copied keys.
	Engine string `json:"engine"`
	Keys   int64  `json:"keys,omitempty"`
	// Reason says why it stays embedded. It is empty if it was moved.
	Reason string `json:"reason,omitempty"`
}

// print writes the outcome as a line.
func (o Outcome) print(w io.Writer) error {
	line := map[resource.Type]string{resource.DB: "database", resource.KV: "key-value store"}[o.Type] +
		" " + o.Name + " (" + o.OrgID + ", " + o.Region + "): "
	switch {
	case o.Reason != "":
		line += "stays embedded: " + o.Reason
	case o.Type == resource.KV:
		line += "moved to " + o.Engine + " with " + humanize.Comma(o.Keys) + " " + english.PluralWord(int(o.Keys), "key", "")
	default:
		line += "moved to " + o.Engine
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// Resources sums up the outcomes for all embedded databases and key-value stores.
type Resources struct {
	Moved  int           `json:"moved"`
	Stayed int           `json:"stayed"`
	Took   time.Duration `json:"took"`
	// Error says why we could not get to all of them. The others stay embedded.
	Error string `json:"error,omitempty"`
	// Regions is the text that the configuration file now needs, without passwords.
	Regions string `json:"regions"`
}

func (r Resources) print(w io.Writer) error {
	text := fmt.Sprintf("Moved %s of %s databases and key-value stores in %s. They have new credentials.\n",
		humanize.Comma(int64(r.Moved)), humanize.Comma(int64(r.Moved+r.Stayed)), r.Took.Round(time.Millisecond))
	if r.Stayed > 0 {
		text += "The others stay in the data directory, and are served from there.\n"
	}
	if r.Error != "" {
		text += "Some were not looked at, and stay embedded: " + r.Error + "\n"
	}
	text += "Write the regions into the configuration file, with the passwords:\n\n" + r.Regions + "\n"
	_, err := io.WriteString(w, text)
	return err
}

// servers take over embedded databases and key-value stores.
type servers struct {
	*job
	given    config.RegionEngines
	db       *postgres.Engine // nil: databases are not moved
	kv       *rediskv.Engine  // nil: key-value stores are not moved
	store    *resource.Store
	manager  *resource.Manager
	embedded *libsql.Engine
	// down tells why a server can no longer be used, by type.
	down map[resource.Type]error
}

// openServers returns the servers in a list such as db=postgres://…,kv=redis://…, or nil if it is
// empty. It returns an error if it cannot use one of them.
func (j *job) openServers(ctx context.Context, list string) (*servers, error) {
	if list == "" {
		return nil, nil
	}
	given, err := config.ParseRegionEngines(list)
	if err != nil {
		return nil, errs.New(errs.Invalid, "--region-engine %s", err)
	}
	s := &servers{job: j, given: given, down: map[resource.Type]error{}}
	if err := s.open(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *servers) open(ctx context.Context) (err error) {
	if address := string(s.given.DB.URL); address != "" {
		if s.db, err = postgres.New(address, s.log); err == nil {
			err = s.db.Check(ctx)
		}
		if err != nil {
			return fmt.Errorf("--region-engine db: %w", err)
		}
	}
	if address := string(s.given.KV.URL); address != "" {
		if s.kv, err = rediskv.New(address, s.log); err == nil {
			err = s.kv.Check(ctx)
		}
		if err != nil {
			return fmt.Errorf("--region-engine kv: %w", err)
		}
	}
	return nil
}

func (s *servers) close() {
	if s != nil && s.db != nil {
		_ = s.db.Close()
	}
	if s != nil && s.kv != nil {
		_ = s.kv.Close()
	}
}

// moveAll moves the databases and stores in the data directory. Their rows are in d under a node's
// name.
func (s *servers) moveAll(ctx context.Context, d *db.DB, node string) *Resources {
	began := time.Now()
	done := &Resources{Regions: s.settings()}
	s.store = &resource.Store{DB: d, Ring: s.ring, Now: time.Now, Audit: &audit.Store{DB: d, Now: time.Now}}
	s.manager = &resource.Manager{Store: s.store, Node: node, Log: s.log}
	for _, r := range s.cfg.Regions { // each with only the new engines
		region := resource.Region{Region: r.Region}
		if s.db != nil && r.DB.Kind == config.Embedded {
			region.DB = s.db
		}
		if s.kv != nil && r.KV.Kind == config.Embedded {
			region.KV = s.kv
		}
		s.manager.Regions = append(s.manager.Regions, region)
	}
	s.embedded = &libsql.Engine{
		Dir: filepath.Join(s.cfg.Data, "databases"), Node: node, Rows: s.store,
		Limits: libsql.Limits{Reserve: max(s.cfg.DiskReserve, 1)}, Log: s.log,
	}
	failed := errors.Join(s.moveType(ctx, node, resource.DB, done), s.moveType(ctx, node, resource.KV, done))
	if failed != nil {
		done.Error = failed.Error()
	}
	done.Took = time.Since(began)
	return done
}

// moveType moves all resources of a type whose regions have a server for it.
func (s *servers) moveType(ctx context.Context, node string, t resource.Type, done *Resources) error {
	if t == resource.DB {
		if s.db == nil {
			return nil
		}
		if err := s.embedded.Open(); err != nil {
			return err
		}
		defer func() { _ = s.embedded.Close(ctx) }()
	}
	ids, err := s.store.IDs(ctx, node, t)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		p, err := s.store.ByID(ctx, id)
		if errs.KindOf(err) == errs.NotFound {
			continue // is being created or deleted
		}
		if err != nil {
			return err
		}
		if s.engine(p) != nil {
			s.move(ctx, p, done)
		}
	}
	return nil
}

// engine returns the server that a resource moves to, or nil if it stays.
func (s *servers) engine(p *resource.Provisioned) resource.Engine {
	for _, r := range s.manager.Regions {
		switch {
		case r.Region != p.Region:
		case p.Type == resource.DB && r.DB != nil:
			return r.DB
		case p.Type == resource.KV && r.KV != nil:
			return r.KV
		}
	}
	return nil
}

// move moves a resource, unless we know that its server is down. It counts and reports the outcome.
func (s *servers) move(ctx context.Context, p *resource.Provisioned, done *Resources) {
	o := Outcome{Type: p.Type, OrgID: p.OrgID, Region: p.Region, Name: p.Name, Engine: p.Engine}
	err := s.down[p.Type]
	if err == nil {
		err = s.transfer(ctx, p, &o)
	}
	log := s.log.With("type", o.Type, "organization", o.OrgID, "region", o.Region, "name", o.Name, "engine", o.Engine)
	if err == nil {
		done.Moved++
		log.Info("an embedded resource was moved")
	} else {
		o.Reason = err.Error()
		done.Stayed++
		log.Warn("an embedded resource was not moved", "error", o.Reason)
	}
	s.report(Event{Resource: &o})
}

// errHasTables is why a database stays embedded.
var errHasTables = errors.New("it has tables, which are not converted to PostgreSQL")

// transfer moves a resource. If that fails, it checks whether the server still works for others.
func (s *servers) transfer(ctx context.Context, p *resource.Provisioned, o *Outcome) error {
	var keys int64
	if p.Type == resource.DB {
		tables, err := s.embedded.Tables(ctx, p)
		if err != nil {
			return err
		}
		if len(tables) > 0 {
			return errHasTables
		}
	}
	moved, err := s.manager.Transfer(ctx, p, func(ctx context.Context, to *resource.Provisioned) (err error) {
		if p.Type == resource.KV {
			keys, err = s.copyStore(ctx, p, to)
		}
		return err
	})
	if err != nil {
		s.down[p.Type] = s.engine(p).Check(ctx)
		return err
	}
	o.Keys = keys
	o.Engine = moved.Engine
	return nil
}

// copyInterval is the time between two progress reports from a copy, to the command and to other
// replicas.
const copyInterval = 5 * time.Second

// copyStore copies an embedded store's keys, and returns their number.
func (s *servers) copyStore(ctx context.Context, from, to *resource.Provisioned) (keys int64, err error) {
	engine := &embedkv.Engine{
		Dir: filepath.Join(s.cfg.Data, "stores"), Node: from.Node, Rows: s.store,
		KeyMemory: budget.NewPool(max(s.cfg.KVMemory, 8*s.cfg.KVStoreMemory), embedkv.KeyGrant),
		Limits:    embedkv.Limits{Memory: s.cfg.KVStoreMemory, Loading: 5 * time.Minute}, Log: s.log, Now: time.Now,
	}
	if err := engine.Open(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, engine.Close(ctx)) }()
	source, err := engine.Client(from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = source.Close() }()
	target, prefix := s.kv.Client(to)
	defer func() { _ = target.Close() }()
	last := time.Now()
	return (&kvcopy.Copier{From: source, To: target, Prefix: prefix, Report: func(keys int64) error {
		if time.Since(last) < copyInterval {
			return nil
		}
		last = time.Now()
		s.report(Event{Stage: stageResources, Table: from.Name, Rows: keys})
		return s.manager.Renew(ctx, to)
	}}).Run(ctx)
}

// settings returns the regions as a configuration file has them, without passwords. It leaves out
// embedded engines, the default.
func (s *servers) settings() string {
	type region struct {
		Region      string `yaml:"region"`
		Description string `yaml:"description,omitempty"`
		S3          string `yaml:"s3,omitempty"`
		DB          string `yaml:"db,omitempty"`
		KV          string `yaml:"kv,omitempty"`
	}
	var all []region
	for _, r := range s.cfg.Regions {
		r = s.given.In(r)
		shown := region{Region: r.Region, Description: r.Description}
		for into, engine := range map[*string]config.Engine{&shown.S3: r.S3, &shown.DB: r.DB, &shown.KV: r.KV} {
			if engine.Kind != config.Embedded {
				*into = engine.Redacted()
			}
		}
		all = append(all, shown)
	}
	text, err := yaml.Marshal(map[string][]region{"regions": all})
	if err != nil {
		return "" // strings can always be encoded
	}
	return string(text)
}
