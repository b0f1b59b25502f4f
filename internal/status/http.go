package status

import (
	"context"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/disk"
	"steward/internal/stamp"
)

// pingTimeout is how long the database may take to respond.
const pingTimeout = time.Second

// Handler serves this package's route.
type Handler struct {
	Version   string
	StartedAt stamp.Time
	// Database names the database's engine, and Ping returns an error if it cannot be used.
	Database  string
	Ping      func(ctx context.Context) error
	Processes *Processes
	Engines   *Engines
	// Disk is the volume with the data directory.
	Disk *disk.Space
	// Accounts knows the first organization, whose owners and admins see the whole installation.
	Accounts *account.Store
	// Nodes, if not nil, returns the live nodes, and those with an organization's resources.
	Nodes func(ctx context.Context, orgID string) ([]Node, error)
	// Backup, if not nil, returns the state of scheduled backups.
	Backup func(ctx context.Context) (Backup, error)
	// Certificates, if not nil, returns the listeners' TLS certificates.
	Certificates func(ctx context.Context) ([]Certificate, error)
	// Webhooks sums up an organization's pending and failing deliveries.
	Webhooks func(ctx context.Context, orgID string) (Webhooks, error)
}

// Status serves GET /status. It shows nothing that the caller could not read elsewhere.
func (h *Handler) Status(ctx context.Context, _ *struct{}) (Status, error) {
	caller := auth.From(ctx)
	s := Status{
		Version: h.Version, StartedAt: h.StartedAt, Regions: []Region{},
		Database: Database{Engine: h.Database, OK: h.usable(ctx)}, Disk: Disk{OK: h.Disk.Room() == nil},
	}
	if caller.May(auth.ReadRegions) {
		s.Regions = h.Engines.Regions()
	}
	if !s.Database.OK {
		return s, nil
	}
	var err error
	if s.Replicas, err = h.Processes.Count(ctx); err != nil {
		return Status{}, err
	}
	first, _, err := h.Accounts.FirstOrg(ctx)
	if err != nil {
		return Status{}, err
	}
	operates := caller.Manages() && caller.OrgID == first
	if caller.May(auth.ReadResources) && h.Nodes != nil {
		if s.Nodes, err = h.Nodes(ctx, caller.OrgID); err != nil {
			return Status{}, err
		}
		if !operates {
			s.Nodes = slices.DeleteFunc(s.Nodes, func(n Node) bool { return n.Databases == 0 && n.Stores == 0 })
		}
	}
	if operates && h.Backup != nil {
		backup, err := h.Backup(ctx)
		if err != nil {
			return Status{}, err
		}
		s.Backup = &backup
	}
	if operates && h.Certificates != nil {
		if s.Certificates, err = h.Certificates(ctx); err != nil {
			return Status{}, err
		}
	}
	if caller.May(auth.ReadWebhooks) {
		hooks, err := h.Webhooks(ctx, caller.OrgID)
		if err != nil {
			return Status{}, err
		}
		s.Webhooks = &hooks
	}
	return s, nil
}

func (h *Handler) usable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return h.Ping(ctx) == nil
}
