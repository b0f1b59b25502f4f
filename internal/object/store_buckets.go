package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"steward/internal/account/organization"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/name"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/webhook"
)

const (
	// accessKeyPrefix begins all access keys. It must not be ASIA, which S3 clients take for a temporary
	// key.
	accessKeyPrefix = "ST"
	accessKeySize   = 20
	secretKeySize   = 40
	secretPurpose   = "bucket.secret"
)

// Cache names the cache of buckets: pass Buckets.Forget to DB.Watch with it.
const Cache = "object.buckets"

// Webhooks are where the events of buckets go. They are a webhook.Store.
type Webhooks interface {
	CreateInternalTx(tx *db.Tx, by webhook.Creator, name string, metadata map[string]string) (webhookID string, err error)
	DeleteInternalTx(tx *db.Tx, orgID, webhookID string) error
	AcceptEventsTx(tx *db.Tx, orgID, webhookID string, events [][]byte) error
}

// Buckets stores buckets: their names, credentials and configuration.
type Buckets struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Audit records who did something, in the same transaction.
	Audit *audit.Store
	// Webhooks has an internal webhook for each bucket. It may be nil.
	Webhooks Webhooks
	// Active refuses the buckets of deleted organizations.
	Active *organization.Active

	byName db.Cache[string, *Bucket]
	byKey  db.Cache[string, *Bucket]
}

// Forget empties the cache.
func (s *Buckets) Forget() {
	s.byName.Forget()
	s.byKey.Forget()
}

const bucketColumns = `name, id, org_id, region, description, access_key, secret, internal, COALESCE(webhook_id, ''), storage_tier, ttl_seconds,
	public, cache_control, cors, additional_headers, created_by, created_at, updated_at, version`

func (s *Buckets) scan(r db.Row) (*Bucket, error) {
	b := &Bucket{}
	c := &b.Config
	var secret []byte
	if err := r.Scan(&b.Name, &b.ID, &b.OrgID, &b.Region, &b.Description, &b.AccessKey, &secret, &b.Internal, &b.WebhookID,
		&c.StorageTier, &c.TTL, &c.Public, &c.CacheControl, db.FromJSON(&c.CORS), db.FromJSON(&c.AdditionalHeaders), &b.CreatedBy, &b.CreatedAt, &b.UpdatedAt, &b.version); err != nil {
		return nil, err
	}
	plain, err := s.Ring.Open(secretPurpose, secret)
	if err != nil {
		return nil, fmt.Errorf("open secret of bucket: %w", err)
	}
	b.SecretKey = string(plain)
	return b, nil
}

// toJSON encodes a value for a column, or returns nil for none.
func toJSON(value any, none bool) *string {
	if none {
		return nil
	}
	return new(db.ToJSON(value))
}

// Create creates a bucket with new credentials in the caller's organization, in the resource's transaction.
// It returns Invalid for a name that S3 does not allow, and Conflict if the name is taken.
func (s *Buckets) Create(tx *db.Tx, caller *auth.Caller, n NewBucket) (*Bucket, error) {
	now := s.Now()
	b := &Bucket{
		ID: id.At(id.Bucket, now), Name: cmp.Or(n.Name, newName()), OrgID: caller.OrgID, Region: n.Region, Description: n.Description,
		AccessKey: newAccessKey(), SecretKey: id.Secret(secretKeySize), Internal: n.Internal,
		CreatedBy: caller.Actor(), CreatedAt: stamp.Of(now), UpdatedAt: stamp.Of(now), version: 1,
	}
	if !name.ValidBucket(b.Name) {
		return nil, errs.InvalidField("name", "expected %s", name.ExpectedBucket)
	}
	if err := s.insert(tx, b); err != nil {
		return nil, err
	}
	if err := s.createWebhook(tx, b); err != nil {
		return nil, err
	}
	if err := tx.Invalidate(Cache); err != nil { // another replica may still cache a deleted bucket of this name
		return nil, err
	}
	return b, s.Audit.Record(tx, "bucket.create", b.Name)
}

func newAccessKey() string { return accessKeyPrefix + id.Secret(accessKeySize-len(accessKeyPrefix)) }

// newName returns a random name, which nobody else has.
func newName() string { return "bucket-" + strings.ToLower(id.Secret(20)) }

func (s *Buckets) insert(tx *db.Tx, b *Bucket) error {
	n, err := tx.Exec(`INSERT INTO buckets
		(name, id, org_id, region, description, access_key, secret, internal, created_by, created_at, updated_at, version)
		VALUES (@name, @id, @org_id, @region, @description, @access_key, @secret, @internal, @created_by, @created_at, @updated_at,
		@version) ON CONFLICT (name) DO NOTHING`,
		db.Args{
			"name": b.Name, "id": b.ID, "org_id": b.OrgID, "region": b.Region, "description": b.Description,
			"access_key": b.AccessKey, "secret": s.sealed(b), "internal": b.Internal, "created_by": b.CreatedBy,
			"created_at": b.CreatedAt, "updated_at": b.UpdatedAt, "version": b.version,
		})
	if err != nil {
		return fmt.Errorf("insert bucket: %w", err)
	}
	if n == 0 {
		return errs.New(errs.Conflict, "a bucket named %s exists already", b.Name)
	}
	if _, err := tx.Exec(`INSERT INTO bucket_states (bucket_id) VALUES ($1)`, b.ID); err != nil {
		return fmt.Errorf("insert state of bucket: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO object_blocks (`+blockColumns+`) VALUES ($1, '', 0, 0)`, b.ID); err != nil {
		return fmt.Errorf("insert first block: %w", err)
	}
	return nil
}

func (s *Buckets) createWebhook(tx *db.Tx, b *Bucket) (err error) {
	if s.Webhooks == nil {
		return nil
	}
	b.WebhookID, err = s.Webhooks.CreateInternalTx(tx, webhook.Creator{OrgID: b.OrgID, UserID: b.CreatedBy}, "Bucket "+b.Name,
		map[string]string{"type": "s3", "bucket_name": b.Name})
	if err != nil {
		return fmt.Errorf("create webhook of bucket: %w", err)
	}
	if _, err := tx.Exec(`UPDATE buckets SET webhook_id = $2 WHERE id = $1`, b.ID, b.WebhookID); err != nil {
		return fmt.Errorf("update bucket: %w", err)
	}
	return nil
}

// sealed returns the bucket's encrypted secret key, ready to store.
func (s *Buckets) sealed(b *Bucket) []byte { return s.Ring.Seal(secretPurpose, []byte(b.SecretKey)) }

// Delete deletes a bucket with everything in it. It subtracts the totals at once; Cleaner.Purge removes the
// rows later. It returns NotFound, or Conflict if the bucket must be empty but is not.
func (s *Buckets) Delete(tx *db.Tx, ref BucketRef, ifEmpty bool) error {
	b, err := s.own(tx, ref)
	if err != nil {
		return err
	}
	if err := lock(tx, b); err != nil {
		return err
	}
	held, err := subtractTotals(tx, b, stamp.Of(s.Now()))
	if err != nil {
		return err
	}
	if ifEmpty && held > 0 {
		return errs.New(errs.Conflict, "bucket %s is not empty", b.Name)
	}
	for _, text := range []string{`DELETE FROM bucket_states WHERE bucket_id = $1`, `DELETE FROM buckets WHERE id = $1`} {
		if _, err := tx.Exec(text, b.ID); err != nil {
			return fmt.Errorf("delete bucket: %w", err)
		}
	}
	if _, err := tx.Exec(`INSERT INTO bucket_purges (bucket_id, deleted_at) VALUES ($1, $2)`, b.ID, stamp.Of(s.Now())); err != nil {
		return fmt.Errorf("insert purge: %w", err)
	}
	if s.Webhooks != nil && b.WebhookID != "" {
		if err := s.Webhooks.DeleteInternalTx(tx, b.OrgID, b.WebhookID); err != nil {
			return fmt.Errorf("delete webhook of bucket: %w", err)
		}
	}
	if err := tx.Invalidate(Cache); err != nil {
		return err
	}
	return s.Audit.Record(tx, "bucket.delete", b.Name)
}

// RotateKeys gives a bucket new credentials. The old ones stop working at once. It returns NotFound.
func (s *Buckets) RotateKeys(tx *db.Tx, ref BucketRef) (*Bucket, error) {
	b, err := s.own(tx, ref)
	if err != nil {
		return nil, err
	}
	b.AccessKey = newAccessKey()
	b.SecretKey = id.Secret(secretKeySize)
	if _, err := tx.Exec(`UPDATE buckets SET access_key = $2, secret = $3 WHERE id = $1`,
		b.ID, b.AccessKey, s.sealed(b)); err != nil {
		return nil, fmt.Errorf("update credentials of bucket: %w", err)
	}
	if err := tx.Invalidate(Cache); err != nil {
		return nil, err
	}
	return b, s.Audit.Record(tx, "bucket.rotate", b.Name)
}

// own reads an organization's bucket in a region, or returns NotFound.
func (s *Buckets) own(q db.Querier, ref BucketRef) (*Bucket, error) {
	b, err := s.find(q, `name`, ref.Name)
	if err == nil && (b.OrgID != ref.OrgID || b.Region != ref.Region) {
		return nil, noBucket(ref.Name)
	}
	return b, err
}

func (s *Buckets) find(q db.Querier, column, value string) (*Bucket, error) {
	if !isText(value) {
		return nil, noBucket(strings.ToValidUTF8(value, "?"))
	}
	b, err := s.scan(q.Row(`SELECT `+bucketColumns+` FROM buckets WHERE `+column+` = $1`, value))
	if errors.Is(err, db.ErrNoRows) {
		return nil, noBucket(value)
	}
	if err != nil {
		return nil, fmt.Errorf("read bucket: %w", err)
	}
	return b, nil
}

// ByName returns a bucket in any organization, or NotFound. It returns Forbidden if the organization was
// deleted.
func (s *Buckets) ByName(ctx context.Context, name string) (*Bucket, error) {
	b, err := s.byName.Get(name, func() (*Bucket, error) { return s.find(s.DB.Read(ctx), `name`, name) })
	return s.active(ctx, b, err)
}

// active returns the bucket, or Forbidden if its organization was deleted.
func (s *Buckets) active(ctx context.Context, b *Bucket, err error) (*Bucket, error) {
	if err != nil {
		return nil, err
	}
	if err := s.Active.Check(ctx, b.OrgID); err != nil {
		return nil, err
	}
	return b, nil
}

// ByAccessKey returns the bucket that an access key belongs to. It returns the same errors as ByName.
func (s *Buckets) ByAccessKey(ctx context.Context, accessKey string) (*Bucket, error) {
	b, err := s.byKey.Get(accessKey, func() (*Bucket, error) {
		b, err := s.find(s.DB.Read(ctx), `access_key`, accessKey)
		if errs.KindOf(err) == errs.NotFound {
			return nil, errs.New(errs.NotFound, "the access key does not exist")
		}
		return b, err
	})
	return s.active(ctx, b, err)
}

// List returns an organization's buckets by name, in a region, or in all regions if it is empty.
func (s *Buckets) List(ctx context.Context, orgID, region string) ([]*Bucket, error) {
	all, err := db.Collect(s.DB.Read(ctx), s.scan, `SELECT `+bucketColumns+` FROM buckets
		WHERE org_id = $1 AND $2 IN (region, '') ORDER BY name`, orgID, region)
	if err != nil {
		return nil, fmt.Errorf("list buckets: %w", err)
	}
	return all, nil
}

// UpdateConfig changes a bucket's configuration. It returns NotFound, Invalid and PreconditionFailed.
func (s *Buckets) UpdateConfig(ctx context.Context, b *Bucket, p Patch, match page.IfMatch) (*Bucket, error) {
	return s.configure(ctx, b, "bucket.configure", match, p.Apply)
}

// ResetConfig restores the defaults. It returns NotFound and PreconditionFailed.
func (s *Buckets) ResetConfig(ctx context.Context, b *Bucket, match page.IfMatch) error {
	_, err := s.configure(ctx, b, "bucket.reset", match, func(Config) (Config, error) { return Config{}, nil })
	return err
}

func (s *Buckets) configure(ctx context.Context, b *Bucket, action string, match page.IfMatch,
	to func(Config) (Config, error),
) (changed *Bucket, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := lock(tx, b); err != nil { // keeps concurrent patches
			return err
		}
		if changed, err = s.own(tx, BucketRef{b.OrgID, b.Region, b.Name}); err != nil {
			return err
		}
		if err := match.Check(changed); err != nil {
			return err
		}
		if changed.Config, err = to(changed.Config); err != nil {
			return err
		}
		return s.writeConfig(tx, changed, action)
	})
	return changed, err
}

func (s *Buckets) writeConfig(tx *db.Tx, b *Bucket, action string) error {
	c := b.Config
	b.version++
	b.UpdatedAt = stamp.Of(s.Now())
	_, err := tx.Exec(`UPDATE buckets SET storage_tier = @storage_tier, ttl_seconds = @ttl_seconds, public = @public,
		cache_control = @cache_control, cors = @cors, additional_headers = @additional_headers, updated_at = @updated_at,
		version = @version WHERE id = @id`,
		db.Args{
			"storage_tier": c.StorageTier, "ttl_seconds": c.TTL, "public": c.Public, "cache_control": c.CacheControl,
			"cors": toJSON(c.CORS, c.CORS == nil), "additional_headers": toJSON(c.AdditionalHeaders, c.AdditionalHeaders == nil), "updated_at": b.UpdatedAt, "version": b.version, "id": b.ID,
		})
	if err != nil {
		return fmt.Errorf("update configuration of bucket: %w", err)
	}
	if err := tx.Invalidate(Cache); err != nil {
		return err
	}
	return s.Audit.Record(tx, action, b.Name)
}

// bucketNames finds buckets. For users, a bucket's name is its id.
var bucketNames = db.NameIndex{Table: "buckets", ID: "name", Index: "buckets_name"}

// Search finds an organization's buckets by words in their names.
func (s *Buckets) Search(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error) {
	return bucketNames.Find(s.DB.Read(ctx), caller.OrgID, text, limit)
}

// withTTL returns up to 100 buckets that have a ttl, ordered by id, after a given id.
func (s *Buckets) withTTL(ctx context.Context, after string) ([]*Bucket, error) {
	some, err := db.Collect(s.DB.Read(ctx), s.scan, `SELECT `+bucketColumns+` FROM buckets
		WHERE ttl_seconds IS NOT NULL AND id > $1 ORDER BY id LIMIT 100`, after)
	if err != nil {
		return nil, fmt.Errorf("list buckets with ttl: %w", err)
	}
	return some, nil
}

// snapshot reads a bucket. It returns NotFound if the bucket was deleted after we cached it.
func (b *Bucket) snapshot(ctx context.Context, d *db.DB, read func(db.Querier) error) error {
	return d.Snapshot(ctx, func(q db.Querier) error {
		if err := findState(q, b, ""); err != nil {
			return err
		}
		return read(q)
	})
}

// lock locks a bucket until the transaction ends, so that we can change its objects. It returns NotFound if
// the bucket was deleted.
func lock(tx *db.Tx, b *Bucket) error { return findState(tx, b, forUpdate(tx)) }

// forUpdate returns what locks the row of a SELECT. SQLite has only one writer and needs no lock.
func forUpdate(tx *db.Tx) string {
	if tx.Dialect() == db.Postgres {
		return ` FOR UPDATE`
	}
	return ""
}

func findState(q db.Querier, b *Bucket, suffix string) error {
	var id string
	return missingBucket(q.Row(`SELECT bucket_id FROM bucket_states WHERE bucket_id = $1`+suffix, b.ID).Scan(&id), b)
}

func missingBucket(err error, b *Bucket) error {
	if errors.Is(err, db.ErrNoRows) {
		return noBucket(b.Name)
	}
	if err != nil {
		return fmt.Errorf("read state of bucket: %w", err)
	}
	return nil
}

// RemoveOrg deletes an organization's buckets with everything in them, and reports whether none is left.
// Cleaner removes their rows and bytes later.
func (s *Buckets) RemoveOrg(ctx context.Context, orgID string) (done bool, err error) {
	buckets, err := s.List(ctx, orgID, "")
	if err != nil {
		return false, err
	}
	for _, b := range buckets {
		ref := BucketRef{OrgID: orgID, Region: b.Region, Name: b.Name}
		err := s.DB.Write(ctx, func(tx *db.Tx) error { return s.Delete(tx, ref, false) })
		if err != nil && errs.KindOf(err) != errs.NotFound {
			return false, err
		}
	}
	return true, nil
}
