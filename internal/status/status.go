// Package status reports the state of an installation: its version and processes, its database, its
// regions' engines, and the deliveries that an organization's webhooks are waiting for.
//
// It owns the table processes, to which each process writes heartbeats (Processes). Handler assembles
// the status. It checks all engines at once, with a
// timeout, and at most once per checkEvery (Engines).
package status

import "steward/internal/stamp"

// Status is an installation's state as an organization sees it.
type Status struct {
	Version      string        `json:"version" example:"v1.2.3"`
	StartedAt    stamp.Time    `json:"started_at" format:"date-time" doc:"When the process that answers was started"`
	Replicas     int           `json:"replicas" doc:"Number of processes that are alive; 0 while the database cannot be used" example:"2"`
	Database     Database      `json:"database"`
	Disk         Disk          `json:"disk"`
	Regions      []Region      `json:"regions" doc:"Empty without the permission to read regions"`
	Nodes        []Node        `json:"nodes,omitempty" doc:"Data directories of the replicas, which have the files of embedded databases and key-value stores: those that live for owners and admins of the first organization, and those that have files of the organization; absent with SQLite, without the permission to read resources, and while the database cannot be used"`
	Backup       *Backup       `json:"backup,omitempty" doc:"Backups at a schedule; absent if none is set, for callers other than owners and admins of the first organization, and while the database cannot be used"`
	Certificates []Certificate `json:"certificates,omitempty" doc:"TLS certificates of the listeners; absent if they are plain, for callers other than owners and admins of the first organization, and while the database cannot be used"`
	Webhooks     *Webhooks     `json:"webhooks,omitempty" doc:"Absent without the permission to read webhooks, and while the database cannot be used"`
}

// Database is the installation's database.
type Database struct {
	_ struct{} `goName:"StatusDatabase"`

	Engine string `json:"engine" enum:"sqlite,postgres"`
	OK     bool   `json:"ok" doc:"Whether it can be used" example:"true"`
}

// Disk is the volume with the responding process's data directory.
type Disk struct {
	_ struct{} `goName:"StatusDisk"`

	OK bool `json:"ok" doc:"Whether there is space; if not, things can be read and deleted, but not added"`
}

// Node is a data directory, with the number of an organization's resources in it.
type Node struct {
	_ struct{} `goName:"StatusNode"`

	Node      string `json:"node" doc:"Id of the data directory" example:"node_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	OK        bool   `json:"ok" doc:"Whether a process serves it; if not, what it has cannot be reached" example:"true"`
	Databases int64  `json:"databases" doc:"Number of the organization's databases whose files it has" example:"2"`
	Stores    int64  `json:"stores" doc:"Number of the organization's key-value stores whose files it has" example:"1"`
}

// Region is a region with its engines.
type Region struct {
	_ struct{} `goName:"StatusRegion"`

	Region  string        `json:"region" example:"local"`
	Engines RegionEngines `json:"engines"`
}

// RegionEngines has a region's engines by resource type. Types that the region does not offer are
// absent.
type RegionEngines struct {
	_ struct{} `goName:"StatusRegionEngines"`

	S3 *EngineState `json:"s3,omitempty"`
	DB *EngineState `json:"db,omitempty"`
	KV *EngineState `json:"kv,omitempty"`
}

// EngineState is an engine's state.
type EngineState struct {
	Engine string `json:"engine" doc:"What provides the resources, such as libsql, postgres or redis" example:"libsql"`
	OK     bool   `json:"ok" doc:"Whether it can be used"`
	Error  string `json:"error,omitempty" doc:"Why it cannot be used" example:"the connection was refused"`
}

// Backup is the state of scheduled backups.
type Backup struct {
	_ struct{} `goName:"StatusBackup"`

	LastSuccessAt *stamp.Time `json:"last_success_at,omitempty" format:"date-time" doc:"When the last backup was completed; absent before the first one"`
	LastError     string      `json:"last_error,omitempty" doc:"Why no backup was made since, or why older ones were not removed; absent if all went well" example:"the backup failed: permission denied"`
	NextAt        stamp.Time  `json:"next_at" format:"date-time" doc:"When the next one is made or tried again" example:"2026-11-18T03:00:00.000Z"`
	Missing       int64       `json:"missing,omitempty" doc:"Databases and key-value stores that the last backup does not have, because their files are in the data directories of other nodes" example:"2"`
}

// Certificate is a TLS certificate that the responding process serves.
type Certificate struct {
	_ struct{} `goName:"StatusCertificate"`

	Domains   []string    `json:"domains" doc:"Names that it is served for" example:"[\"steward.example.com\"]"`
	Source    string      `json:"source" enum:"file,acme" doc:"Whether it is read from a file, or obtained by ACME"`
	NotAfter  *stamp.Time `json:"not_after,omitempty" format:"date-time" doc:"When it ends; absent if there is none yet"`
	LastError string      `json:"last_error,omitempty" doc:"Why it was not read, obtained or renewed when that was last tried; absent if it was" example:"the CA refused it with rateLimited; the log of the server says why"`
}

// Webhooks sums up an organization's pending and failing deliveries.
type Webhooks struct {
	_ struct{} `goName:"StatusWebhooks"`

	Pending      int64       `json:"pending" doc:"Deliveries that are waiting or being sent" example:"3"`
	OldestDueAt  *stamp.Time `json:"oldest_due_at,omitempty" format:"date-time" doc:"When the first pending delivery is or was due; absent if none is pending"`
	Failing      []Failing   `json:"failing" doc:"Destinations that are failing, those that began last first; at most 100"`
	FailingTotal int64       `json:"failing_total" doc:"Number of destinations that are failing"`
	TailLag      float64     `json:"tail_lag_seconds" doc:"How long the oldest event has waited that live tails cannot show yet, because an older transaction is still open on the PostgreSQL server; 0 if none waits" example:"0"`
}

// Failing is a failing destination: some of its deliveries failed in their last attempt.
type Failing struct {
	_ struct{} `goName:"FailingDestination"`

	WebhookID     string      `json:"webhook_id" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
	WebhookName   string      `json:"webhook_name" example:"orders"`
	DestinationID string      `json:"destination_id" example:"whds_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	Host          string      `json:"host" doc:"Host of the destination's URL" example:"hooks.example.com"`
	Path          string      `json:"path" doc:"Path of the destination's URL, without its query" example:"/orders"`
	Since         stamp.Time  `json:"since" format:"date-time" doc:"Since when there have been failing deliveries without a break" example:"2026-11-15T08:30:00.123Z"`
	Count         int64       `json:"count" doc:"Events whose last attempt failed: those that wait for a retry, and those that have failed for good meanwhile" example:"7"`
	Waiting       int64       `json:"waiting" doc:"Attempts that wait for their retry or are being sent; counted up to 10,000" example:"5"`
	NextDueAt     *stamp.Time `json:"next_due_at,omitempty" format:"date-time" doc:"When the first of them is due; absent if none waits"`
	LastError     string      `json:"last_error" example:"the destination answered 503"`
}
