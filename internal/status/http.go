package status

import (
	"context"
	"slices"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/disk"
	"steward/internal/node"
	"steward/internal/resource"
	"steward/internal/stamp"
	"steward/internal/webhook"
)

// pingTimeout is how long the database may take to respond.
const pingTimeout = time.Second

// Handler serves this package's route.
type Handler struct {
	Version   string
	StartedAt stamp.Time
	Processes *Processes
	Engines   *Engines
	// Disk is the volume with the data directory.
	Disk *disk.Space
	// Accounts knows the first organization, whose owners and admins see the whole installation.
	Accounts *account.Store
	// Nodes knows the data directories, and Resources what they have.
	Nodes     *node.Directory
	Resources *resource.Store
	Webhooks  *webhook.Store
	// Backup, if not nil, returns the state of scheduled backups.
	Backup func(ctx context.Context) (Backup, error)
	// Certificates, if not nil, returns the listeners' TLS certificates.
	Certificates func(ctx context.Context) ([]Certificate, error)
}

// Status serves GET /status. It shows nothing that the caller could not read elsewhere.
func (h *Handler) Status(ctx context.Context, _ *struct{}) (Status, error) {
	caller := auth.From(ctx)
	s := Status{
		Version: h.Version, StartedAt: h.StartedAt, Regions: []Region{},
		Database: Database{Engine: h.Processes.DB.Dialect().String(), OK: h.usable(ctx)}, Disk: Disk{OK: h.Disk.Room() == nil},
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
	if caller.May(auth.ReadResources) {
		if s.Nodes, err = h.nodes(ctx, caller.OrgID); err != nil {
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
		hooks, err := h.Webhooks.Health(ctx, caller.OrgID)
		if err != nil {
			return Status{}, err
		}
		s.Webhooks = shownHealth(hooks)
	}
	return s, nil
}

// nodes returns the live nodes, and those that have an organization's resources.
func (h *Handler) nodes(ctx context.Context, orgID string) ([]Node, error) {
	all, err := h.Nodes.States(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	counts, err := h.Resources.OfNodes(ctx, orgID)
	if err != nil {
		return nil, err
	}
	var nodes []Node
	for _, s := range all {
		count := counts[s.ID]
		delete(counts, s.ID)
		if s.Alive || count != (resource.NodeCount{}) {
			nodes = append(nodes, Node{Node: s.ID, OK: s.Alive, Databases: count.Databases, Stores: count.Stores})
		}
	}
	for id, count := range counts {
		nodes = append(nodes, Node{Node: id, Databases: count.Databases, Stores: count.Stores})
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Node, b.Node) })
	return nodes, nil
}

func shownHealth(health webhook.Health) *Webhooks {
	shown := &Webhooks{
		Pending: health.Pending, OldestDueAt: health.OldestDueAt, FailingTotal: health.FailingTotal, TailLag: health.TailLag.Seconds(),
		Failing: make([]Failing, len(health.Failing)),
	}
	for i, f := range health.Failing {
		shown.Failing[i] = Failing{
			WebhookID: f.WebhookID, WebhookName: f.WebhookName, DestinationID: f.DestinationID, Host: f.Host, Path: f.Path,
			Since: f.Since, Count: f.Count, Waiting: f.Waiting, NextDueAt: f.NextDueAt, LastError: f.LastError,
		}
	}
	return shown
}

func (h *Handler) usable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return h.Processes.DB.Ping(ctx) == nil
}
